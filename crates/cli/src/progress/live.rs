//! Progress on a terminal.

use super::view::View;

/// How the lines of queries are kept up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// In place, at the bottom of the screen.
    InPlace,
    /// By new lines: something else prints between them.
    Appended,
}

/// The lines that are on the screen now. Gives the text to print; prints nothing itself.
#[derive(Debug)]
pub(super) struct Live {
    style: Style,
    /// How many lines at the bottom of the screen are ours to change.
    drawn: usize,
}

/// To the start of the line, and clear it and everything below.
const CLEAR: &str = "\r\x1b[J";
/// Lines that are too long are cut by the terminal: a wrapped line could not be changed in place.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

impl Live {
    pub(super) fn new(style: Style) -> Self {
        Self { style, drawn: 0 }
    }

    /// Brings the lines of all queries up to date.
    pub(super) fn redraw(&mut self, views: &[&View]) -> String {
        match self.style {
            Style::Appended => String::new(),
            Style::InPlace => self.take_back() + &self.draw(views),
        }
    }

    /// Says that one query has something new; `views` are all of them.
    pub(super) fn changed(&mut self, view: &View, views: &[&View]) -> String {
        match self.style {
            Style::Appended => format!("{}\n", view.line()),
            Style::InPlace => self.redraw(views),
        }
    }

    /// Puts text above the lines.
    pub(super) fn above(&mut self, text: &str, views: &[&View]) -> String {
        let text = format!("{}\n", text.trim_end_matches('\n'));
        match self.style {
            Style::Appended => text,
            Style::InPlace => self.take_back() + &text + &self.draw(views),
        }
    }

    /// Leaves the lines as they are; what comes next stands below them.
    pub(super) fn settle(&mut self) {
        self.drawn = 0;
    }

    fn draw(&mut self, views: &[&View]) -> String {
        self.drawn = views.len();
        if views.is_empty() {
            return String::new();
        }
        let lines: String = views.iter().map(|view| format!("{}\n", view.line())).collect();
        format!("{NO_WRAP}{lines}{WRAP}")
    }

    fn take_back(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A{CLEAR}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::testing::progress;
    use crate::progress::view::Pace;

    #[test]
    fn lines_are_changed_in_place() {
        let mut live = Live::new(Style::InPlace);
        let (mut a, b) = (View::new("a", Pace::Finite), View::new("b", Pace::Finite));
        assert_eq!(live.redraw(&[&a, &b]), "\x1b[?7la: starting\nb: starting\n\x1b[?7h");
        a.status("reading");
        assert_eq!(
            live.changed(&a, &[&a, &b]),
            "\x1b[2A\r\x1b[J\x1b[?7la: reading\nb: starting\n\x1b[?7h"
        );
        assert_eq!(
            live.above("a warning\n", &[&a]),
            "\x1b[2A\r\x1b[Ja warning\n\x1b[?7la: reading\n\x1b[?7h"
        );
        live.settle();
        assert_eq!(live.redraw(&[]), "");
    }

    #[test]
    fn beside_other_output_there_are_only_new_lines() {
        let mut live = Live::new(Style::Appended);
        let mut view = View::new("a", Pace::Finite);
        assert_eq!(live.redraw(&[&view]), "");
        view.batch(&progress(0, 1, None, None));
        let line = live.changed(&view, &[&view]);
        assert_eq!(line, "a: batch 0, 1 row in, no watermark yet, state 13 rows\n");
        assert_eq!(live.above("text", &[&view]), "text\n");
    }
}
