//! A file that several columns read at once: every read says where, and none moves a position
//! that another one depends on, as clones of a `File` do. However many columns, it is open once,
//! and a small one is read once: page by page, asking took longer than decoding.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Files up to this size are read as a whole.
const SMALL: u64 = 1 << 18;

/// What is read at once of a header: most have some fifty bytes, and pages are read apart.
const HEADER: usize = 512;

#[derive(Clone)]
pub struct Shared {
    file: Arc<File>,
    size: u64,
    /// All of a small file.
    whole: Option<Bytes>,
}

impl Shared {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let file = Arc::new(file);
        let mut found = Self {
            file,
            size,
            whole: None,
        };
        if size <= SMALL {
            found.whole = Some(found.bytes(0, size as usize)?);
        }
        Ok(found)
    }

    /// So many bytes, or fewer if the file ends before.
    fn bytes(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let mut found = Vec::with_capacity(length);
        while found.len() < length && extend_at(&self.file, &mut found, start)? > 0 {}
        found.truncate(length);
        Ok(found.into())
    }

    fn from(&self, at: u64) -> From {
        let file = self.file.clone();
        From { file, at }
    }
}

impl Length for Shared {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Shared {
    type T = Source;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(match &self.whole {
            None => Source::File(BufReader::with_capacity(HEADER, self.from(start))),
            Some(whole) => Source::Memory(whole.slice(within(start, whole.len())..).reader()),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // Memory is taken for what there is: a footer may lie, and no caller survives an abort.
        if length as u64 > self.size.saturating_sub(start) {
            let reason = format!("{length} bytes at {start} reach beyond its end");
            return Err(ParquetError::EOF(reason));
        }
        let found = match &self.whole {
            None => self.bytes(start, length)?,
            Some(whole) => {
                let start = within(start, whole.len());
                whole.slice(start..whole.len().min(start + length))
            }
        };
        if found.len() < length {
            return Err(ParquetError::EOF("it has become shorter".into()));
        }
        Ok(found)
    }
}

fn within(place: u64, length: usize) -> usize {
    usize::try_from(place).unwrap_or(length).min(length)
}

/// What a reader reads on from.
pub enum Source {
    File(BufReader<From>),
    Memory(Reader<Bytes>),
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(into),
            Self::Memory(bytes) => bytes.read(into),
        }
    }
}

/// Reads on from a place.
pub struct From {
    file: Arc<File>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = read_at(&self.file, into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Read on behind what there is of the bytes from a place on, as far as there is room; return how
/// many came. Room for a page is not cleared before it is written, as `Read` would.
#[cfg(unix)]
fn extend_at(file: &File, found: &mut Vec<u8>, start: u64) -> io::Result<usize> {
    use rustix::{buffer::spare_capacity, io};
    let at = start + found.len() as u64;
    Ok(io::retry_on_intr(|| {
        io::pread(file, spare_capacity(found), at)
    })?)
}

#[cfg(windows)]
fn extend_at(file: &File, found: &mut Vec<u8>, start: u64) -> io::Result<usize> {
    let length = found.len();
    found.resize(found.capacity(), 0);
    let count = read_at(file, &mut found[length..], start + length as u64);
    found.truncate(length + *count.as_ref().unwrap_or(&0));
    count
}

#[cfg(unix)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, at)
}

#[cfg(windows)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, at)
}
