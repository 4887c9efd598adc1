//! What this process has used so far, by the kernel's account.

use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::Duration;

/// CPU time of all threads, those that ended included.
pub(crate) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn field(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').split_whitespace().next().map_or(0, |n| n.parse().unwrap_or(0))
}

/// The most memory that was resident, in bytes.
pub(crate) fn peak() -> u64 {
    field("/proc/self/status", "VmHWM") << 10
}

/// Bytes that were handed to the system to be written.
pub(crate) fn written() -> u64 {
    field("/proc/self/io", "wchar")
}

/// Bytes of the files in a folder; a file with several names counts once.
pub(crate) fn files(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let (mut bytes, mut seen) = (0, std::collections::BTreeSet::new());
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) if seen.insert(meta.ino()) => bytes += meta.len(),
                _ => {}
            }
        }
    }
    bytes
}
