//! Laws of sources.
