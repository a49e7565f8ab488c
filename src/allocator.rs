//! The module's allocator. A request needs some thirty small pieces of memory for a short time, of the same sizes as the request
//! before it. So pieces of up to [`LARGEST`] bytes are kept in lists by their size when they are freed, and the next request
//! takes them from there: a few instructions, and no look at other memory. Everything else is left to `talc`.
//!
//! What is in a list is not given back, so the module keeps what the busiest moment needed, in pieces of each size.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use talc::wasm::{WasmDynamicTalc, new_wasm_dynamic_allocator};

/// Sizes are rounded up to a multiple of this, in bytes.
const STEP: usize = 32;
/// The number of lists, without that of pieces without a size, which nobody asks for.
const LISTS: usize = 24;
/// The size of the largest pieces with a list, in bytes.
const LARGEST: usize = LISTS * STEP;
/// The alignment of pieces in lists.
const ALIGNMENT: usize = 8;

/// Lists of free pieces, in front of another allocator.
pub(crate) struct ListAllocator {
    /// The first free piece of each size, or null. The first bytes of a free piece point to the next one.
    free: UnsafeCell<[*mut u8; LISTS + 1]>,
    large: WasmDynamicTalc,
}

// SAFETY: a module of this ABI has one thread.
unsafe impl Sync for ListAllocator {}

impl ListAllocator {
    pub(crate) const fn new() -> Self {
        Self { free: UnsafeCell::new([null_mut(); LISTS + 1]), large: new_wasm_dynamic_allocator() }
    }

    /// The place of the list for such pieces; `None` if they have none.
    fn list(&self, layout: Layout) -> Option<*mut *mut u8> {
        let has_list = layout.size() <= LARGEST && layout.align() <= ALIGNMENT;
        // SAFETY: the index is at most `LISTS`.
        has_list.then(|| unsafe { self.free.get().cast::<*mut u8>().add(index(layout.size())) })
    }
}

/// The index of the list for pieces of this size.
const fn index(size: usize) -> usize {
    size.div_ceil(STEP)
}

// SAFETY: a piece is either of `large`, which keeps the contract, or was given by it with the rounded size of its list and
// `ALIGNMENT`, and is in a list only between `dealloc` and `alloc`. Both compute the list from the same layout.
unsafe impl GlobalAlloc for ListAllocator {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(list) = self.list(layout) else {
            // SAFETY: the caller's contract is the same.
            return unsafe { self.large.alloc(layout) };
        };
        // SAFETY: the list is valid and nobody else uses it; a piece in it holds the pointer to the next one.
        unsafe {
            let piece = *list;
            if piece.is_null() {
                let rounded = Layout::from_size_align_unchecked(index(layout.size()) * STEP, ALIGNMENT);
                return self.large.alloc(rounded);
            }
            *list = *piece.cast::<*mut u8>();
            piece
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up the piece, which has room for a pointer and its alignment if it has a list.
        unsafe {
            match self.list(layout) {
                None => self.large.dealloc(piece, layout),
                Some(list) => {
                    *piece.cast::<*mut u8>() = *list;
                    *list = piece;
                }
            }
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's contract; the sizes are those of the layouts.
        unsafe {
            let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
            match (self.list(layout), self.list(new_layout)) {
                (None, None) => self.large.realloc(piece, layout, new_size),
                (old, new) if old == new => piece,
                _ => {
                    let moved = self.alloc(new_layout);
                    if !moved.is_null() {
                        moved.copy_from_nonoverlapping(piece, layout.size().min(new_size));
                        self.dealloc(piece, layout);
                    }
                    moved
                }
            }
        }
    }
}
