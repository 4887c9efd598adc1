//! Integration tests of the DataFusion front.

#![allow(clippy::unwrap_used)]

mod function_list;
mod spark_facts;
mod unread;
