//! Integration tests of the DataFusion front.

mod spark_facts;
