-- Impressions of ads, each with its click if there was one within ten minutes.
--
--     fluvial run examples/ad_clicks/pipeline.sql
--
-- Both streams may come five minutes late. An impression that was clicked comes out when both are
-- there; one that was not, once the watermark says that no click in time can come any more. Run it
-- again and there is nothing new; then let more impressions and clicks land, and run it again:
--
--     cp examples/ad_clicks/later/impressions-2.json examples/ad_clicks/landing/impressions/
--     cp examples/ad_clicks/later/clicks-2.json examples/ad_clicks/landing/clicks/
--
-- Paths are relative to this file. To start over, remove out/ and .fluvial/ beside it.

CREATE STREAMING TABLE ad_clicks USING delta LOCATION 'out/ad_clicks' AS
SELECT i.ad, i.shown, i.cost, c.clicked, c.amount
FROM STREAM read_files('landing/impressions', format => 'json',
       schema => 'impression string, ad string, shown timestamp, cost double')
     WATERMARK shown DELAY OF INTERVAL 5 MINUTES AS i
LEFT JOIN STREAM read_files('landing/clicks', format => 'json',
       schema => 'impression string, clicked timestamp, amount double')
     WATERMARK clicked DELAY OF INTERVAL 5 MINUTES AS c
  ON i.impression = c.impression
 AND c.clicked BETWEEN i.shown AND i.shown + INTERVAL 10 MINUTES;

-- Runs when the query above has ended.
SELECT ad, shown, clicked, amount FROM ad_clicks ORDER BY shown, clicked;
