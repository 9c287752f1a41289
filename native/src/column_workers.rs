//! Decode columns in parallel, on as many threads as there are idle cores.
//!
//! Callers mostly read several files in parallel, which keeps the cores busy. Where they do not,
//! as with one file or the last of many, worker threads take columns too, and end as soon as there
//! are more busy threads than cores. They live as long as one batch: a fork of the process cannot
//! break a pool.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of cores; 0 until it is known.
static CORES: AtomicUsize = AtomicUsize::new(0);

/// Number of threads of this process that are decoding.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Counts a thread as busy until it is dropped.
struct BusyGuard;

impl BusyGuard {
    fn new() -> Self {
        BUSY.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Cached: the system call takes as long as decoding a small file.
fn cores() -> usize {
    let known = CORES.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let found = thread::available_parallelism().map_or(1, usize::from);
    CORES.store(found, Ordering::Relaxed);
    found
}

/// Apply a function to every item; return the results in the order of the items.
///
/// `order` is the order of execution: the slowest item first, so that no thread waits for it at
/// the end. Worker threads are started only if `is_large`, because starting them takes time.
pub fn for_each_column<I: Send, O: Send, E: Send>(
    items: &mut [I],
    order: &[usize],
    is_large: bool,
    each: impl Fn(&mut I) -> Result<O, E> + Sync,
) -> Result<Vec<O>, E> {
    let (cores, next) = (cores(), AtomicUsize::new(0));
    let work: Vec<_> = items
        .iter_mut()
        .map(|item| Mutex::new((item, None)))
        .collect();
    let take_one = || {
        let at = *order.get(next.fetch_add(1, Ordering::Relaxed))?;
        let (item, done) = &mut *work[at].lock().expect("each item is taken once");
        *done = Some(each(item));
        Some(())
    };
    let _busy = BusyGuard::new();
    thread::scope(|scope| {
        let spare = cores.saturating_sub(BUSY.load(Ordering::Relaxed));
        let workers = if is_large {
            spare.min(order.len() - 1)
        } else {
            0
        };
        for _ in 0..workers {
            let busy = BusyGuard::new();
            let take_one = &take_one;
            let work_on = move || {
                let _busy = busy;
                while BUSY.load(Ordering::Relaxed) <= cores && take_one().is_some() {}
            };
            if thread::Builder::new().spawn_scoped(scope, work_on).is_err() {
                break; // no more threads available: the existing ones do the work
            }
        }
        while take_one().is_some() {}
    });
    let finished = |slot: Mutex<(&mut I, Option<_>)>| slot.into_inner().ok()?.1;
    work.into_iter()
        .map(|slot| finished(slot).expect("every item was processed"))
        .collect()
}
