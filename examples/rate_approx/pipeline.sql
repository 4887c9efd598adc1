-- Viewers per title and minute, about right and in little memory.
--
--     fluvial run examples/rate_approx/pipeline.sql
--
-- Two hundred heartbeats a second, made up: each says that a viewer watches a title, and comes up to
-- 90 seconds late. The watermark waits two minutes, so none of them is lost. Every 30 seconds the
-- minutes that are over are appended to the table; the first one comes after about three minutes.
-- It runs until Ctrl-C, and goes on from there the next time.

CREATE STREAMING TABLE viewers_per_minute USING delta LOCATION 'out/viewers_per_minute'
TBLPROPERTIES ('trigger' = '30 seconds') AS
SELECT window(event_time, '1 minute') AS w, title, approx_count_distinct(viewer) AS viewers
FROM (
    SELECT timestamp - make_interval(0, 0, 0, 0, 0, 0, rand() * 90) AS event_time,
           concat('title-', value % 240) AS title,
           concat('viewer-', cast(rand() * 5000 AS bigint)) AS viewer
    FROM STREAM rate(rowsPerSecond => 200)
) WATERMARK event_time DELAY OF INTERVAL 2 MINUTES
GROUP BY 1, 2;
