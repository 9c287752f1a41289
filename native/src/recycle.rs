//! Memory in large blocks is kept for the next column instead of given back.
//!
//! To decode a column takes a few blocks of about a megabyte, for its pages, its dictionary and
//! its values, and most are let go of at once. The system clears memory that is new to a process
//! page by page, which took as long as decoding itself. So blocks that are let go of wait here,
//! up to a bound, for the next one who asks for as much. Small ones are the system's as ever.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks from here on are kept; systems keep smaller ones themselves.
const LEAST: usize = 1 << 17;
/// Most bytes that may wait.
const MOST: usize = 1 << 25;
/// Most blocks that may wait.
const SLOTS: usize = 64;
/// What every system aligns blocks to; who wants more gets it from the system.
const ALIGNED: usize = 16;

/// Takes from the system, and keeps what is let go of.
pub struct Recycling {
    busy: AtomicBool,
    waiting: UnsafeCell<Waiting>,
}

// SAFETY: `waiting` is only touched by who has set `busy`.
unsafe impl Sync for Recycling {}

/// A block that waits, and its size.
type Slot = (*mut u8, usize);
const EMPTY: Slot = (ptr::null_mut(), 0);

/// Blocks that wait, as a ring: the one that has waited longest makes room for the next.
struct Waiting {
    blocks: [Slot; SLOTS],
    next: usize,
    bytes: usize,
}

impl Waiting {
    fn take(&mut self, size: usize) -> Option<*mut u8> {
        let slot = self.blocks.iter_mut().find(|slot| slot.1 == size)?;
        self.bytes -= size;
        Some(std::mem::replace(slot, EMPTY).0)
    }

    /// Keep a block, and let go of those that have waited longest until there is room.
    fn keep(&mut self, block: *mut u8, size: usize) {
        for _ in 0..SLOTS {
            let (old, length) = std::mem::replace(&mut self.blocks[self.next], EMPTY);
            if length > 0 {
                self.bytes -= length;
                // SAFETY: it was taken from the system with this layout.
                unsafe { System.dealloc(old, block_of(length)) };
            }
            if self.bytes + size <= MOST {
                break;
            }
            self.next = (self.next + 1) % SLOTS;
        }
        self.blocks[self.next] = (block, size);
        self.bytes += size;
        self.next = (self.next + 1) % SLOTS;
    }
}

impl Recycling {
    pub const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            waiting: UnsafeCell::new(Waiting {
                blocks: [EMPTY; SLOTS],
                next: 0,
                bytes: 0,
            }),
        }
    }

    /// Nobody waits for another thread: a fork may have left the lock behind for good.
    fn try_with<T>(&self, what: impl FnOnce(&mut Waiting) -> T) -> Option<T> {
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `busy` was not set, so nobody else has it, and it is set now.
        let found = what(unsafe { &mut *self.waiting.get() });
        self.busy.store(false, Ordering::Release);
        Some(found)
    }

    /// Copy a block to another one, and let go of it.
    unsafe fn moved(&self, from: *mut u8, old: Layout, to: *mut u8, new: Layout) -> *mut u8 {
        if !to.is_null() {
            unsafe {
                ptr::copy_nonoverlapping(from, to, old.size().min(new.size()));
                self.dealloc(from, old);
            }
        }
        to
    }

    fn take(&self, size: usize) -> Option<*mut u8> {
        self.try_with(|waiting| waiting.take(size)).flatten()
    }
}

/// How large a block is made for so many bytes: steps of an eighth, so that columns share them.
fn rounded(size: usize) -> usize {
    let step = 1 << (size.ilog2() - 3);
    size.next_multiple_of(step)
}

fn block_of(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGNED).expect("sizes of layouts were checked")
}

/// The size of the block for a layout; None if it is the system's.
fn kept_size(layout: Layout) -> Option<usize> {
    let is_kept = layout.size() >= LEAST && layout.size() <= MOST / 4 && layout.align() <= ALIGNED;
    is_kept.then(|| rounded(layout.size()))
}

// SAFETY: blocks come from the system with the layout of `block_of`, are given to one at a time,
// and go back with the same layout: which one it is follows from the layout that was asked for.
unsafe impl GlobalAlloc for Recycling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match kept_size(layout) {
            None => unsafe { System.alloc(layout) },
            Some(size) => self
                .take(size)
                .unwrap_or_else(|| unsafe { System.alloc(block_of(size)) }),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(size) = kept_size(layout) else {
            return unsafe { System.dealloc(block, layout) };
        };
        if self.try_with(|waiting| waiting.keep(block, size)).is_none() {
            unsafe { System.dealloc(block, block_of(size)) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match kept_size(layout) {
            None => unsafe { System.alloc_zeroed(layout) },
            Some(size) => match self.take(size) {
                None => unsafe { System.alloc_zeroed(block_of(size)) },
                Some(block) => {
                    unsafe { block.write_bytes(0, layout.size()) };
                    block
                }
            },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (kept_size(layout), kept_size(wanted)) {
            (None, None) => unsafe { System.realloc(block, layout, size) },
            (Some(old), Some(new)) if old == new => block,
            (Some(old), Some(new)) => match self.take(new) {
                Some(other) => unsafe { self.moved(block, layout, other, wanted) },
                None => unsafe { System.realloc(block, block_of(old), new) }, // may copy nothing
            },
            _ => unsafe { self.moved(block, layout, self.alloc(wanted), wanted) },
        }
    }
}
