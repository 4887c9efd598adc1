-- A running total per kind of event.
--
--     fluvial run examples/event_totals/pipeline.sql
--
-- In complete mode each batch gives the whole result anew; here one file is one batch. The table is
-- in memory, so it is gone when the program ends, and every run counts from the start.

CREATE STREAMING TABLE event_totals USING memory TBLPROPERTIES ('outputMode' = 'complete') AS
SELECT event, sum(amount) AS total
FROM STREAM read_files('landing/events', format => 'json', maxFilesPerTrigger => 1,
       schema => 'event STRING, amount INT')
GROUP BY event;

SELECT event, total FROM event_totals ORDER BY event;
