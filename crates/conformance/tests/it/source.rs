//! The laws of sources pass an honest source and catch one that breaks them.

mod numbers;
mod saboteurs;
