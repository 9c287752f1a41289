//! What the pages of a column say of themselves, looked at before the decoder believes it.
//!
//! The decoder takes the memory that a header asks for, and Rust ends the process where there is
//! none. So a header that asks for more than its bytes can hold is an error here, and so is one
//! that is not written as every writer writes it: two readers may see different things in it.

use parquet::basic::{Compression, Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;

use crate::compact::{Compact, Fields};
use crate::shared::Shared;

/// Encodings whose values take no more memory than their page says: plain, dictionary (two names),
/// run lengths, bit-packed, byte streams. Those by differences announce a count of their own.
const ENCODINGS: [i64; 6] = [0, 2, 3, 4, 8, 9];
const DICTIONARY_PAGE: i64 = 2;
/// Kinds of pages, the field that describes each, and the field of its encoding in there.
const DESCRIBED_BY: [(i64, u8, u8); 3] = [(0, 5, 2), (DICTIONARY_PAGE, 7, 2), (3, 8, 4)];
/// No page of Snappy decompresses to more than this many times its size.
const SNAPPY_RATIO: i64 = 21;
/// Most headers have some fifty bytes; those with long statistics are read in a second go.
const USUAL_HEADER: u64 = 128;
const LARGEST_HEADER: u64 = 16 << 20;

/// Check every page of a column of a row group.
pub fn check(file: &Shared, chunk: &ColumnChunkMetaData) -> Result<()> {
    let (start, size) = chunk.byte_range();
    let (mut at, end) = (start, start.saturating_add(size));
    while at < end {
        let (fields, size) = fields_at(file, at, end)?;
        let header = Header::of(&fields).ok_or_else(|| wrong("has an unusual header"))?;
        header.check(chunk, at == start)?;
        at += size as u64;
        if header.compressed as u64 > end.saturating_sub(at) {
            return Err(wrong("reaches beyond its column"));
        }
        at += header.compressed as u64;
    }
    Ok(())
}

/// The numbers of a page header that decide how much memory is taken.
struct Header {
    kind: i64,
    decompressed: i64,
    compressed: i64,
    values: i64,
    encoding: i64,
}

impl Header {
    /// None unless it has what it must, and the description of its own kind of page alone.
    fn of(fields: &Fields) -> Option<Self> {
        let kind = fields.number(1)?;
        let (_, place, encoding) = DESCRIBED_BY.into_iter().find(|known| known.0 == kind)?;
        if (5..=8).any(|other| other != place && fields.has(other)) {
            return None;
        }
        let page = fields.inner(place)?;
        Some(Self {
            kind,
            decompressed: fields.number(2)?,
            compressed: fields.number(3)?,
            values: page.number(1)?,
            encoding: page.number(encoding)?,
        })
    }

    fn check(&self, chunk: &ColumnChunkMetaData, is_first: bool) -> Result<()> {
        if self.compressed < 0 || self.decompressed < 0 || self.values < 0 {
            return Err(wrong("has a negative size"));
        }
        let most = match chunk.compression() {
            Compression::UNCOMPRESSED => self.compressed,
            Compression::SNAPPY => SNAPPY_RATIO.saturating_mul(self.compressed),
            _ => i64::MAX, // whoever asks has summed them up
        };
        if self.decompressed > most {
            return Err(wrong("cannot become as large as it says"));
        }
        if !ENCODINGS.contains(&self.encoding) {
            return Err(wrong("has an encoding that is left to others"));
        }
        if self.kind == DICTIONARY_PAGE {
            let held = self.values.saturating_mul(least_width(chunk.column_type()));
            if held > self.decompressed || !is_first {
                return Err(wrong("is no dictionary of that size in this place"));
            }
        }
        Ok(())
    }
}

/// Bytes that a value takes in a dictionary at least.
fn least_width(kind: Type) -> i64 {
    match kind {
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BOOLEAN | Type::FIXED_LEN_BYTE_ARRAY => 1,
        Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
    }
}

fn wrong(what: &str) -> ParquetError {
    ParquetError::General(format!("a page {what}"))
}

/// Read the header at a place; return its fields and how long it is.
fn fields_at(file: &Shared, at: u64, end: u64) -> Result<(Fields, usize)> {
    let mut length = USUAL_HEADER;
    loop {
        let bytes = file.get_bytes(at, length.min(end - at) as usize)?;
        let mut compact = Compact::new(&bytes);
        if let Some(fields) = compact.fields() {
            return Ok((fields, compact.passed()));
        }
        if length >= LARGEST_HEADER.min(end - at) {
            return Err(wrong("has no header"));
        }
        length *= 8;
    }
}
