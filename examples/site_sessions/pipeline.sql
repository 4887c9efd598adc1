-- Visits of a site: clicks of one visitor that follow each other within half an hour are a visit.
--
--     fluvial run examples/site_sessions/pipeline.sql
--
-- Visits are appended to a Delta table once they are over: when the watermark, ten minutes behind
-- the newest click, has passed half an hour after their last click. Later runs go on where this
-- one ends: a visit that is still open goes on with them.

CREATE STREAMING TABLE visits USING delta LOCATION 'out/visits' AS
SELECT session_window(event_time, '30 minutes') AS visit, user_id, count(*) AS pages,
       min(page) AS one_page, sum(duration_s) AS total_duration_s
FROM STREAM read_files('landing/clicks', format => 'json',
       schema => 'user_id STRING, page STRING, event_time TIMESTAMP, duration_s DOUBLE')
WATERMARK event_time DELAY OF INTERVAL 10 MINUTES
GROUP BY 1, 2;

SELECT user_id, visit.start AS began, pages, total_duration_s FROM visits ORDER BY began, user_id;
