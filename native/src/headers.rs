//! What the pages of a column say of themselves, looked at before the decoder believes it.
//!
//! The decoder takes the memory that a header asks for, and Rust ends the process where there is
//! none. So a header that asks for more than its bytes can hold is an error here, and so is one
//! that is not written as every writer writes it: two readers may see different things in it.

use parquet::basic::{Compression, Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;

use crate::compact::{BINARY, BOOL, Compact, Fields, I32, I64, STRUCT};
use crate::shared::Shared;

/// Encodings whose values take no more memory than their page says: plain, dictionary (two names),
/// run lengths, bit-packed, byte streams. Those by differences announce a count of their own.
const ENCODINGS: [i64; 6] = [0, 2, 3, 4, 8, 9];
const DICTIONARY_PAGE: i64 = 2;
/// What a header has whatever its page: kind, two sizes, checksum; then comes what describes it.
const HEADER: [u8; 4] = [I32, I32, I32, I32];
const STATISTICS: [u8; 9] = [BINARY, BINARY, I64, I64, BINARY, BINARY, BOOL, BOOL, I64];

/// How a kind of page is described.
struct Description {
    kind: i64,
    place: u8,
    types: &'static [u8],
    encoding: u8,
}

const DESCRIPTIONS: [Description; 3] = [
    Description {
        kind: 0,
        place: 5,
        types: &[I32, I32, I32, I32, STRUCT],
        encoding: 2,
    },
    Description {
        kind: DICTIONARY_PAGE,
        place: 7,
        types: &[I32, I32, BOOL],
        encoding: 2,
    },
    Description {
        kind: 3,
        place: 8,
        types: &[I32, I32, I32, I32, I32, I32, BOOL, STRUCT],
        encoding: 4,
    },
];
/// No page of Snappy decompresses to more than this many times its size: three bytes make 64.
const SNAPPY_RATIO: i64 = 22;
/// Most headers have some fifty bytes; those with long statistics are read in a second go.
const USUAL_HEADER: u64 = 128;
const LARGEST_HEADER: u64 = 16 << 20;

/// What the pages of a column come to.
#[derive(Default)]
pub struct Pages {
    pub values: i64,
    /// Bytes, decompressed.
    pub size: i64,
}

/// Check every page of a column of a row group, and return what they come to. `largest` is how
/// large a page may become where its codec sets no bound.
pub fn check(file: &Shared, chunk: &ColumnChunkMetaData, largest: i64) -> Result<Pages> {
    match chunk.compression() {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => (),
        _ => return Err(wrong("is compressed in a way that is left to others")),
    }
    let (start, size) = chunk.byte_range();
    let mut pages = Pages::default();
    let (mut at, end) = (start, start.saturating_add(size));
    while at < end {
        let (fields, size) = fields_at(file, at, end)?;
        let header = Header::of(&fields).ok_or_else(|| wrong("has an unusual header"))?;
        header.check(chunk, at == start, largest)?;
        at += size as u64;
        if header.compressed as u64 > end.saturating_sub(at) {
            return Err(wrong("reaches beyond its column"));
        }
        at += header.compressed as u64;
        pages.size = pages.size.saturating_add(header.decompressed);
        if header.kind != DICTIONARY_PAGE {
            pages.values = pages.values.saturating_add(header.values);
        }
    }
    Ok(pages)
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
    /// None unless it has what it must, in the right types, and nothing besides: the decoder looks
    /// at numbers of fields and not at their types.
    fn of(fields: &Fields) -> Option<Self> {
        let kind = fields.number(1)?;
        let known = DESCRIPTIONS.iter().find(|known| known.kind == kind)?;
        let mut types = HEADER.to_vec();
        types.resize(usize::from(known.place) - 1, 0);
        types.push(STRUCT);
        let page = fields.inner(known.place)?;
        let statistics = page.inner(known.types.len() as u8);
        if !fields.are(&types)
            || !page.are(known.types)
            || statistics.is_some_and(|found| !found.are(&STATISTICS))
        {
            return None;
        }
        Some(Self {
            kind,
            decompressed: fields.number(2)?,
            compressed: fields.number(3)?,
            values: page.number(1)?,
            encoding: page.number(known.encoding)?,
        })
    }

    fn check(&self, chunk: &ColumnChunkMetaData, is_first: bool, largest: i64) -> Result<()> {
        if self.compressed < 0 || self.decompressed < 0 || self.values < 0 {
            return Err(wrong("has a negative size"));
        }
        let most = match chunk.compression() {
            Compression::UNCOMPRESSED => self.compressed,
            Compression::SNAPPY => SNAPPY_RATIO.saturating_mul(self.compressed),
            _ => largest,
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
