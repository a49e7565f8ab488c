//! Switches one mutant on, or notes which mutants are reached.
//!
//! A program that does not call [`choose`] and [`record`] reads the environment: `EDGE_MUTANT` is the number of the mutant that is
//! on, and `EDGE_MUTANTS_REACHED` a file to which the numbers of the mutants that are reached are appended, a line each.

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// No mutant is on. The numbers of mutants begin at 1.
pub const NONE: u32 = 0;
const RECORDING: u32 = u32::MAX - 1;
const UNKNOWN: u32 = u32::MAX;
/// So many mutants there can be, divided by 64.
const WORDS: usize = 1024;

static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static FILE: OnceLock<Mutex<std::fs::File>> = OnceLock::new();

/// Whether a mutant is on.
#[inline]
pub fn on(mutant: u32) -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    if active < RECORDING { active == mutant } else { special(active, mutant) }
}

/// Switches a mutant on, and all others off.
pub fn choose(mutant: u32) {
    ACTIVE.store(mutant, Ordering::Relaxed);
}

/// Notes from now on which mutants are reached. None is on.
pub fn record() {
    ACTIVE.store(RECORDING, Ordering::Relaxed);
}

/// The mutants that were reached.
pub fn reached() -> Vec<u32> {
    let mut all = Vec::new();
    for (index, word) in REACHED.iter().enumerate() {
        let word = word.load(Ordering::Relaxed);
        all.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| index as u32 * 64 + bit));
    }
    all
}

#[cold]
fn special(active: u32, mutant: u32) -> bool {
    if active == UNKNOWN {
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
        if let Some(path) = std::env::var_os("EDGE_MUTANTS_REACHED") {
            if let Ok(file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
                let _ = FILE.set(Mutex::new(file));
            }
            record();
        } else {
            choose(number("EDGE_MUTANT").unwrap_or(NONE));
        }
        return on(mutant);
    }
    let bit = 1 << (mutant % 64);
    let word = REACHED.get(mutant as usize / 64);
    let is_new = word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0);
    if is_new
        && let Some(file) = FILE.get()
        && let Ok(mut file) = file.lock()
    {
        let _ = file.write_all(format!("{mutant}\n").as_bytes());
    }
    false
}
