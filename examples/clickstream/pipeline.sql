-- Page views and time spent, per page and five minutes.
--
--     fluvial run examples/clickstream/pipeline.sql
--
-- Clicks land as files of JSON lines and come up to ten minutes late. A window is written once,
-- when the watermark says that no click of it can come any more. Run it again and it says that
-- there is nothing new; then let two more clicks land, one of them too late, and run it again:
--
--     cp examples/clickstream/later/part-0002.json examples/clickstream/landing/clicks/
--
-- Paths are relative to this file. To start over, remove out/ and .fluvial/ beside it.

CREATE STREAMING TABLE page_views_5m USING delta LOCATION 'out/page_views_5m' AS
SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views, sum(duration_s) AS total_duration_s
FROM STREAM read_files('landing/clicks', format => 'json', maxFilesPerTrigger => 10,
       schema => 'user_id string, page string, event_time timestamp, duration_s double')
WATERMARK event_time DELAY OF INTERVAL 10 MINUTES
GROUP BY 1, 2;

-- Runs when the query above has ended.
SELECT w.start AS start, w.end AS `end`, page, views, total_duration_s
FROM page_views_5m
ORDER BY start, page;
