//! A file that several columns read at once: every read says where, and none moves a position
//! that another one depends on, as clones of a `File` do. However many columns, it is open once.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

#[derive(Clone)]
pub struct Shared {
    file: Arc<File>,
    size: u64,
}

impl Shared {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let file = Arc::new(file);
        Ok(Self { file, size })
    }
}

impl Length for Shared {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Shared {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let file = self.file.clone();
        Ok(BufReader::new(From { file, at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // Memory is taken for what there is: a footer may lie, and no caller survives an abort.
        if length as u64 > self.size.saturating_sub(start) {
            let reason = format!("{length} bytes at {start} reach beyond its end");
            return Err(ParquetError::EOF(reason));
        }
        let mut found = Vec::with_capacity(length);
        self.get_read(start)?
            .into_inner()
            .take(length as u64)
            .read_to_end(&mut found)?;
        if found.len() < length {
            return Err(ParquetError::EOF("it has become shorter".into()));
        }
        Ok(found.into())
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

#[cfg(unix)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, at)
}

#[cfg(windows)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, at)
}
