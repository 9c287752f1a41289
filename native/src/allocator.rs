//! Allocator that caches freed large blocks for reuse by the next column.
//!
//! Decoding a column allocates a few blocks of about a megabyte, for its pages, its dictionary and
//! its values, and frees most of them at once. The system zeroes memory that is new to a process
//! page by page, which took as long as decoding itself. So freed blocks are cached, up to a bound,
//! for the next allocation of the same size. Small blocks go to the system allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Least size of a cached block; system allocators cache smaller ones themselves.
const LEAST: usize = 1 << 17;
/// Most bytes in the cache.
const MOST: usize = 1 << 25;
/// Most blocks in the cache.
const SLOTS: usize = 64;
/// Alignment of every system allocator; layouts that need more are not cached.
const ALIGNED: usize = 16;

/// The system allocator with a cache of freed blocks.
pub struct CachingAllocator {
    busy: AtomicBool,
    cache: UnsafeCell<Cache>,
}

// SAFETY: `cache` is only accessed by the thread that has set `busy`.
unsafe impl Sync for CachingAllocator {}

/// A cached block and its size.
type Slot = (*mut u8, usize);
const EMPTY: Slot = (ptr::null_mut(), 0);

/// Freed blocks in a ring buffer: the oldest is evicted first.
struct Cache {
    blocks: [Slot; SLOTS],
    next: usize,
    bytes: usize,
}

impl Cache {
    fn take(&mut self, size: usize) -> Option<*mut u8> {
        let slot = self.blocks.iter_mut().find(|slot| slot.1 == size)?;
        self.bytes -= size;
        Some(std::mem::replace(slot, EMPTY).0)
    }

    /// Cache a block, and free the oldest ones until there is room.
    fn keep(&mut self, block: *mut u8, size: usize) {
        for _ in 0..SLOTS {
            let (old, length) = std::mem::replace(&mut self.blocks[self.next], EMPTY);
            if length > 0 {
                self.bytes -= length;
                // SAFETY: it was allocated by the system with this layout.
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

impl CachingAllocator {
    pub const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            cache: UnsafeCell::new(Cache {
                blocks: [EMPTY; SLOTS],
                next: 0,
                bytes: 0,
            }),
        }
    }

    /// Never blocks: a fork may leave the lock set forever, and then nothing is cached.
    fn try_with<T>(&self, what: impl FnOnce(&mut Cache) -> T) -> Option<T> {
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: this thread has set `busy`, which was not set, so no other thread has access.
        let found = what(unsafe { &mut *self.cache.get() });
        self.busy.store(false, Ordering::Release);
        Some(found)
    }

    /// Copy a block to another one, and free it.
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
        self.try_with(|cache| cache.take(size)).flatten()
    }
}

/// Size of the block for an allocation: rounded up in steps of an eighth, so that columns of
/// similar size share blocks.
fn rounded(size: usize) -> usize {
    let step = 1 << (size.ilog2() - 3);
    size.next_multiple_of(step)
}

fn block_of(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGNED).expect("the size comes from a valid layout")
}

/// Size of the cached block for a layout; None if it goes to the system allocator.
fn cached_size(layout: Layout) -> Option<usize> {
    let is_cached =
        layout.size() >= LEAST && layout.size() <= MOST / 4 && layout.align() <= ALIGNED;
    is_cached.then(|| rounded(layout.size()))
}

// SAFETY: blocks are allocated by the system with the layout of `block_of`, have one owner at a
// time, and are freed with the same layout, which follows from the requested one.
unsafe impl GlobalAlloc for CachingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match cached_size(layout) {
            None => unsafe { System.alloc(layout) },
            Some(size) => self
                .take(size)
                .unwrap_or_else(|| unsafe { System.alloc(block_of(size)) }),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(size) = cached_size(layout) else {
            return unsafe { System.dealloc(block, layout) };
        };
        if self.try_with(|cache| cache.keep(block, size)).is_none() {
            unsafe { System.dealloc(block, block_of(size)) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match cached_size(layout) {
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
        match (cached_size(layout), cached_size(wanted)) {
            (None, None) => unsafe { System.realloc(block, layout, size) },
            (Some(old), Some(new)) if old == new => block,
            (Some(old), Some(new)) => match self.take(new) {
                Some(other) => unsafe { self.moved(block, layout, other, wanted) },
                None => unsafe { System.realloc(block, block_of(old), new) }, // may grow in place
            },
            _ => unsafe { self.moved(block, layout, self.alloc(wanted), wanted) },
        }
    }
}
