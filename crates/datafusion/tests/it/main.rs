//! Integration tests of the DataFusion front.

mod function_list;
mod spark_facts;
