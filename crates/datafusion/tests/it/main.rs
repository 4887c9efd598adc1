//! Integration tests of the DataFusion front.

#![allow(clippy::unwrap_used)]

mod function_list;
mod long;
mod spark_facts;
mod unread;
