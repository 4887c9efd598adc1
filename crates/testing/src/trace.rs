//! What happened, as one number: two simulations that agree in it were the same.

use fluvial_sim::{Call, Disk};
use std::hash::{Hash, Hasher};

/// FNV-1a: the same on every machine and in every version.
#[derive(Debug, Clone)]
pub(crate) struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Trace {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Trace {
    /// Every call, in order; save those of a foreign format, whose library reads on threads of its
    /// own.
    pub(crate) fn calls(&mut self, calls: &[Call], foreign: &str) {
        for call in calls.iter().filter(|call| !call.path.starts_with(foreign)) {
            format!("{:?}", call.op).hash(self);
            normal(&call.path).hash(self);
        }
    }

    /// What is stored. Tables of foreign formats have times and random names in them: of those
    /// only the paths count.
    pub(crate) fn disk(&mut self, disk: &Disk, foreign: &str) {
        for (path, bytes) in disk.contents() {
            normal(&path).hash(self);
            if !path.starts_with(foreign) {
                bytes.hash(self);
            }
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        text.hash(self);
    }
}

/// The path without random names: each that looks like a UUID is one star.
pub(crate) fn normal(path: &str) -> String {
    let is_uuid = |text: &str| {
        text.len() == 36
            && text.bytes().enumerate().all(|(i, byte)| match i {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    let mut out = String::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        match rest.get(..36).filter(|text| is_uuid(text)) {
            Some(_) => {
                out.push('*');
                rest = &rest[36..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_names_are_stars() {
        assert_eq!(normal("t/part-0000a1b2-00aa-4bcd-9abc-0123456789ab-c0.x"), "t/part-*-c0.x");
        assert_eq!(normal("checkpoint/offsets/0"), "checkpoint/offsets/0");
    }
}
