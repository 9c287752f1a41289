//! Work on columns, shared out among as many threads as there are cores to spare.
//!
//! Files are mostly read side by side by threads of the caller's, which keep the cores busy. Where
//! they do not, as with one file or the last of many, helpers take columns too, and leave again
//! as soon as they are one too many. They live as long as one batch: nothing stays behind that a
//! fork of the process could break.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many cores there are; 0 before anybody asked.
static CORES: AtomicUsize = AtomicUsize::new(0);

/// How many threads of this process are decoding now.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// One of the busy threads, until it is dropped.
struct Hand;

impl Hand {
    fn new() -> Self {
        BUSY.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// To ask the system takes as long as to decode a small file.
fn cores() -> usize {
    let known = CORES.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let found = thread::available_parallelism().map_or(1, usize::from);
    CORES.store(found, Ordering::Relaxed);
    found
}

/// Apply a function to every item; return what it gave, in the order of the items.
///
/// `order` says which comes first: the one that takes longest, so that nobody waits for it in the
/// end. Helpers come only if `is_much`, for they take some time to come.
pub fn shared_out<I: Send, O: Send, E: Send>(
    items: &mut [I],
    order: &[usize],
    is_much: bool,
    each: impl Fn(&mut I) -> Result<O, E> + Sync,
) -> Result<Vec<O>, E> {
    let (cores, next) = (cores(), AtomicUsize::new(0));
    let work: Vec<_> = items
        .iter_mut()
        .map(|item| Mutex::new((item, None)))
        .collect();
    let take_one = || {
        let at = *order.get(next.fetch_add(1, Ordering::Relaxed))?;
        let (item, done) = &mut *work[at].lock().expect("no other thread has it");
        *done = Some(each(item));
        Some(())
    };
    let _hand = Hand::new();
    thread::scope(|scope| {
        let spare = cores.saturating_sub(BUSY.load(Ordering::Relaxed));
        let helpers = if is_much {
            spare.min(order.len() - 1)
        } else {
            0
        };
        for _ in 0..helpers {
            let hand = Hand::new();
            let take_one = &take_one;
            let help = move || {
                let _hand = hand;
                while BUSY.load(Ordering::Relaxed) <= cores && take_one().is_some() {}
            };
            if thread::Builder::new().spawn_scoped(scope, help).is_err() {
                break; // the system has no more of them: those that there are do the work
            }
        }
        while take_one().is_some() {}
    });
    let finished = |slot: Mutex<(&mut I, Option<_>)>| slot.into_inner().ok()?.1;
    work.into_iter()
        .map(|slot| finished(slot).expect("all were worked on"))
        .collect()
}
