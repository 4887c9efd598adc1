-- Bronze, silver, gold: from files as they land to tables that people look at.
--
--   cargo run -p fluvial-cli -- run examples/medallion/pipeline.sql
--
-- Let more events land and run it again. They have a new field: that stops the run once, and its
-- column is there when it is run once more.
--
--   cp examples/medallion/later/part-0007.json examples/medallion/landing/
--
-- Kill it wherever you like and run it again: the tables are as if nothing had been. To start over,
-- remove examples/medallion/out and examples/medallion/.fluvial.

-- Every record that lands, as it is; new fields become new columns.
CREATE STREAMING TABLE bronze LOCATION 'out/bronze' TBLPROPERTIES ('mergeSchema' = 'true') AS
SELECT * FROM STREAM read_files('landing', format => 'json', maxFilesPerTrigger => 1,
  schemaLocation => 'out/_schemas/events', inferColumnTypes => true,
  schemaHints => 'event_time TIMESTAMP, duration_s DOUBLE');

SELECT count(*) AS records, count(DISTINCT event_id) AS events FROM bronze;

-- Records that are none: and with them, the tables that the merges below write to.
CREATE STREAMING TABLE silver_events LOCATION 'out/silver_events' AS
SELECT event_id, user_id, page, status, event_time, duration_s
FROM STREAM bronze WHERE event_id IS NULL;

CREATE STREAMING TABLE silver_users LOCATION 'out/silver_users' AS
SELECT user_id, status, event_time AS last_seen FROM STREAM bronze WHERE event_id IS NULL;

-- Each event once, however often it came.
MERGE INTO silver_events AS t USING (
  SELECT event_id, user_id, page, status, event_time, duration_s FROM (
    SELECT *, row_number() OVER (PARTITION BY event_id ORDER BY event_time) AS n FROM bronze
  ) WHERE n = 1
) AS s ON t.event_id = s.event_id
WHEN NOT MATCHED THEN INSERT *;

-- The latest status of each user, whatever order events come in.
MERGE INTO silver_users AS t USING (
  SELECT user_id, status, event_time AS last_seen FROM (
    SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY event_time DESC) AS n FROM bronze
  ) WHERE n = 1
) AS s ON t.user_id = s.user_id
WHEN MATCHED AND s.last_seen > t.last_seen THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *;

-- Views and time spent, per page and five minutes, when they are over.
CREATE STREAMING TABLE gold_page_views LOCATION 'out/gold_page_views' AS
SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views, sum(duration_s) AS seconds
FROM STREAM silver_events WATERMARK event_time DELAY OF INTERVAL 10 MINUTES
GROUP BY 1, 2;

SELECT w.start AS start, page, views, seconds FROM gold_page_views ORDER BY start, page;

SELECT user_id, status, last_seen FROM silver_users ORDER BY user_id;
