//! The module's functions: the page asks for room, writes a question into it, has it answered, and reads the answer. Both are JSON.
//!
//! These three functions, and ten lines in web/worker.js, do what wasm-bindgen would be for. So nothing generated is kept, no version of a
//! tool has to fit, and the module imports nothing: whatever it does, it cannot reach the page or the network.

use std::cell::Cell;

/// The greatest length of a question in bytes. It bounds the memory, and the time in which the page has no answer.
const LONGEST: usize = 4 << 20;

thread_local! {
    /// The question, and then the answer to it.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Room for a question of so many bytes; null if there is none.
#[unsafe(no_mangle)]
extern "C" fn room(length: usize) -> *mut u8 {
    let mut text = Vec::new();
    if length > LONGEST || text.try_reserve_exact(length).is_err() {
        return std::ptr::null_mut();
    }
    text.resize(length, 0);
    let place = text.as_mut_ptr();
    TEXT.set(text);
    place
}

/// Answers the question that stands in the room; the answer's length.
#[unsafe(no_mangle)]
extern "C" fn answer() -> usize {
    let text = crate::answer(&TEXT.take()).into_bytes();
    let length = text.len();
    TEXT.set(text);
    length
}

/// Where the answer stands, until there is another question.
#[unsafe(no_mangle)]
extern "C" fn answered() -> *const u8 {
    let text = TEXT.take();
    let place = text.as_ptr();
    TEXT.set(text);
    place
}
