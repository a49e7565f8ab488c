//! Bounds the log lines about refusals, so that a flood of refused requests cannot fill a disk.

use crate::problem::Code;

/// The greatest number of lines of one kind with one code in a window of [`WINDOW_TICKS`].
pub(super) const LINES: u32 = 10;
/// The length of a window in ticks, of which there is one a second.
const WINDOW_TICKS: u8 = 10;

/// What a bounded line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A problem document that was sent
    Refused,
    /// A refusal that had no effect in shadow mode
    Shadow,
}

impl LineKind {
    /// The word with which a line begins.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Shadow => "shadow",
        }
    }
}

/// The numbers of lines that were asked for in the current window, by kind and code.
#[derive(Debug, Default)]
pub(super) struct LineBudget {
    ticks: u8,
    asked: [[u32; Code::ALL.len()]; 2],
}

impl LineBudget {
    /// Whether another line may be written.
    pub(super) fn allows(&mut self, kind: LineKind, code: Code) -> bool {
        let asked = self.asked.get_mut(kind as usize).and_then(|codes| codes.get_mut(code as usize));
        asked.is_some_and(|asked| {
            *asked = asked.saturating_add(1);
            *asked <= LINES
        })
    }

    /// Takes a tick. `true` if it ends the window; then [`LineBudget::end_window`] has to follow.
    pub(super) const fn tick(&mut self) -> bool {
        self.ticks += 1;
        self.ticks >= WINDOW_TICKS
    }

    /// Begins a new window. `report` gets the kind and the code of the lines that were left out, and their number.
    pub(super) fn end_window(&mut self, mut report: impl FnMut(LineKind, Code, u32)) {
        let asked = std::mem::take(self).asked;
        for (kind, codes) in [LineKind::Refused, LineKind::Shadow].into_iter().zip(asked) {
            for (code, asked) in Code::ALL.into_iter().zip(codes) {
                if asked > LINES {
                    report(kind, code, asked - LINES);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_lines_in_each_window() {
        let mut budget = LineBudget::default();
        for _ in 0..2 {
            let written = (0..1000).filter(|_| budget.allows(LineKind::Refused, Code::NotFound)).count();
            assert_eq!(written, LINES as usize);
            assert!(budget.allows(LineKind::Refused, Code::KeyInvalid));
            assert!(budget.allows(LineKind::Shadow, Code::NotFound));
            let ticks: Vec<bool> = (0..WINDOW_TICKS).map(|_| budget.tick()).collect();
            assert_eq!(ticks.iter().filter(|ends| **ends).count(), 1);
            assert_eq!(ticks.last(), Some(&true));
            let mut reported = Vec::new();
            budget.end_window(|kind, code, count| reported.push((kind, code, count)));
            assert_eq!(reported, [(LineKind::Refused, Code::NotFound, 1000 - LINES)]);
        }
    }
}
