//! Folders of the local file system. Its object store lists a missing folder as an empty one, so
//! whether it is there is asked of the file system itself.

use fluvial_core::{Error, Result};
use std::io::ErrorKind;
use std::path::Path;

/// Checks that a local folder can be read: to be called before a source over it is opened.
///
/// # Errors
///
/// `Invalid`: it is missing (`PATH_NOT_FOUND`), no folder (`NOT_A_FOLDER`) or not readable
/// (`PATH_NOT_READABLE`).
pub fn check_local_folder(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let error = match std::fs::read_dir(folder) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let (condition, message) = match error.kind() {
        ErrorKind::NotFound => (
            "PATH_NOT_FOUND",
            format!("the folder {shown} does not exist: create it, or correct the path"),
        ),
        ErrorKind::NotADirectory => (
            "NOT_A_FOLDER",
            format!("{shown} is a file: a source reads a folder, or a pattern such as {shown}*"),
        ),
        _ => ("PATH_NOT_READABLE", format!("the folder {shown} cannot be listed: {error}")),
    };
    Err(Error::invalid(message).with_condition(condition).with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_folder_is_said() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(check_local_folder(here).is_ok());
        let condition = |path: &str| {
            check_local_folder(&here.join(path)).unwrap_err().condition().map(str::to_owned)
        };
        assert_eq!(condition("nowhere").as_deref(), Some("PATH_NOT_FOUND"));
        assert_eq!(condition("Cargo.toml").as_deref(), Some("NOT_A_FOLDER"));
    }
}
