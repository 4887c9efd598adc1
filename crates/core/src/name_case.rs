//! Whether the case of a column's name matters.

/// Whether `k` and `K` are one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NameCase {
    /// They are: no two columns may differ in case only.
    #[default]
    Insensitive,
    /// They are two.
    Sensitive,
}

impl NameCase {
    /// Whether two names mean the same column.
    pub fn same(self, a: &str, b: &str) -> bool {
        a == b || (self == Self::Insensitive && same_in_lower_case(a, b))
    }
}

/// Without an allocation for names in ASCII, as nearly all are.
fn same_in_lower_case(a: &str, b: &str) -> bool {
    match a.is_ascii() && b.is_ascii() {
        true => a.eq_ignore_ascii_case(b),
        false => a.to_lowercase() == b.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_matters_only_where_it_is_asked_for() {
        assert!(NameCase::Insensitive.same("k", "K") && !NameCase::Insensitive.same("k", "l"));
        assert!(NameCase::Insensitive.same("Été", "éTÉ"));
        assert!(NameCase::Insensitive.same("\u{212a}", "k"), "the sign of kelvin is a k");
        assert!(NameCase::Sensitive.same("k", "k") && !NameCase::Sensitive.same("k", "K"));
    }
}
