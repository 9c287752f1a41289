//! A file that several columns read concurrently, by positional reads: clones of a `File` share
//! one cursor. The file is opened once for all columns. A small one is read as a whole: page by
//! page, the system calls took longer than decoding.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Largest size of a file that is read as a whole.
const SMALL: u64 = 1 << 18;

/// Buffer size for page headers: most have about fifty bytes, and pages are read separately.
const HEADER: usize = 512;

#[derive(Clone)]
pub struct FileSource {
    file: Arc<File>,
    size: u64,
    /// The content of a small file.
    whole: Option<Bytes>,
}

impl FileSource {
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

    /// Read `length` bytes, or fewer at the end of the file.
    fn bytes(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let mut found = Vec::with_capacity(length);
        while found.len() < length && extend_at(&self.file, &mut found, start)? > 0 {}
        found.truncate(length);
        Ok(found.into())
    }

    fn cursor(&self, at: u64) -> Cursor {
        let file = self.file.clone();
        Cursor { file, at }
    }
}

impl Length for FileSource {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for FileSource {
    type T = Source;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(match &self.whole {
            None => Source::File(BufReader::with_capacity(HEADER, self.cursor(start))),
            Some(whole) => Source::Memory(whole.slice(clamped(start, whole.len())..).reader()),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // Checked before the allocation: a footer may lie, and a failed allocation aborts.
        if length as u64 > self.size.saturating_sub(start) {
            let reason = format!("{length} bytes at {start} reach beyond its end");
            return Err(ParquetError::EOF(reason));
        }
        let found = match &self.whole {
            None => self.bytes(start, length)?,
            Some(whole) => {
                let start = clamped(start, whole.len());
                whole.slice(start..whole.len().min(start + length))
            }
        };
        if found.len() < length {
            return Err(ParquetError::EOF("it was truncated".into()));
        }
        Ok(found)
    }
}

fn clamped(place: u64, length: usize) -> usize {
    usize::try_from(place).unwrap_or(length).min(length)
}

/// Sequential reader of a file or of its content in memory.
pub enum Source {
    File(BufReader<Cursor>),
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

/// Reads a shared file from a position of its own.
pub struct Cursor {
    file: Arc<File>,
    at: u64,
}

impl Read for Cursor {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = read_at(&self.file, into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Append bytes of the file up to the capacity of the buffer, which holds the bytes from `start`
/// on; return their number. The buffer is not zeroed first, as `Read` would require.
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
