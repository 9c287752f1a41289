//! Validate the page headers of a column before the decoder trusts them.
//!
//! The decoder allocates the memory that a header claims, and Rust aborts the process where there
//! is not enough. So a header that claims more than its bytes can hold is an error here, and so is
//! one with unknown fields: two readers may see different things in it.

use parquet::basic::{Compression, Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;

use crate::file_source::FileSource;
use crate::thrift::{BINARY, BOOL, Compact, Fields, I32, I64, STRUCT};

/// Encodings whose values take no more memory than the page header claims: PLAIN, both dictionary
/// encodings, RLE, BIT_PACKED, BYTE_STREAM_SPLIT. Delta encodings have a value count of their own.
const ENCODINGS: [i64; 6] = [0, 2, 3, 4, 8, 9];
const DICTIONARY_PAGE: i64 = 2;
/// Fields of every header: page type, two sizes, checksum. The header of the page type follows.
const HEADER: [u8; 4] = [I32, I32, I32, I32];
const STATISTICS: [u8; 9] = [BINARY, BINARY, I64, I64, BINARY, BINARY, BOOL, BOOL, I64];

/// The header of a page type.
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
/// Highest compression ratio of Snappy: three bytes encode at most 64.
const SNAPPY_RATIO: i64 = 22;
/// Most headers have about fifty bytes; those with long statistics are read again.
const USUAL_HEADER: u64 = 128;
const LARGEST_HEADER: u64 = 16 << 20;

/// Totals over the pages of a column.
#[derive(Default)]
pub struct Pages {
    pub values: i64,
    /// Decompressed bytes.
    pub size: i64,
}

/// Validate the page headers of a column chunk, and return their totals. `largest` bounds the
/// decompressed size of a page whose codec sets no bound.
pub fn check(file: &FileSource, chunk: &ColumnChunkMetaData, largest: i64) -> Result<Pages> {
    match chunk.compression() {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => (),
        _ => return Err(invalid("has a codec that is not supported")),
    }
    let (start, size) = chunk.byte_range();
    let mut pages = Pages::default();
    let (mut at, end) = (start, start.saturating_add(size));
    while at < end {
        let (fields, size) = fields_at(file, at, end)?;
        let header =
            Header::of(&fields).ok_or_else(|| invalid("has a header that is not valid"))?;
        header.check(chunk, at == start, largest)?;
        at += size as u64;
        if header.compressed as u64 > end.saturating_sub(at) {
            return Err(invalid("reaches beyond its column"));
        }
        at += header.compressed as u64;
        pages.size = pages.size.saturating_add(header.decompressed);
        if header.kind != DICTIONARY_PAGE {
            pages.values = pages.values.saturating_add(header.values);
        }
    }
    Ok(pages)
}

/// The values of a page header that determine how much memory is allocated.
struct Header {
    kind: i64,
    decompressed: i64,
    compressed: i64,
    values: i64,
    encoding: i64,
}

impl Header {
    /// None unless the required fields are there, of the right types, and no others: the decoder
    /// ignores the types of fields.
    fn of(fields: &Fields) -> Option<Self> {
        let kind = fields.number(1)?;
        let known = DESCRIPTIONS.iter().find(|known| known.kind == kind)?;
        let mut types = HEADER.to_vec();
        types.resize(usize::from(known.place) - 1, 0);
        types.push(STRUCT);
        let page = fields.inner(known.place)?;
        let statistics = page.inner(known.types.len() as u8);
        if !fields.have_types(&types)
            || !page.have_types(known.types)
            || statistics.is_some_and(|found| !found.have_types(&STATISTICS))
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
            return Err(invalid("has a negative size"));
        }
        let most = match chunk.compression() {
            Compression::UNCOMPRESSED => self.compressed,
            Compression::SNAPPY => SNAPPY_RATIO.saturating_mul(self.compressed),
            _ => largest,
        };
        if self.decompressed > most {
            return Err(invalid("cannot decompress to the size that it claims"));
        }
        if !ENCODINGS.contains(&self.encoding) {
            return Err(invalid("has an encoding that is not supported"));
        }
        if self.kind == DICTIONARY_PAGE {
            let held = self.values.saturating_mul(least_width(chunk.column_type()));
            if held > self.decompressed || !is_first {
                return Err(invalid("is not a valid dictionary"));
            }
        }
        Ok(())
    }
}

/// Least bytes of a value in a dictionary.
fn least_width(kind: Type) -> i64 {
    match kind {
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BOOLEAN | Type::FIXED_LEN_BYTE_ARRAY => 1,
        Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
    }
}

fn invalid(what: &str) -> ParquetError {
    ParquetError::General(format!("a page {what}"))
}

/// Read the header at a position; return its fields and its length.
fn fields_at(file: &FileSource, at: u64, end: u64) -> Result<(Fields, usize)> {
    let mut length = USUAL_HEADER;
    loop {
        let bytes = file.get_bytes(at, length.min(end - at) as usize)?;
        let mut compact = Compact::new(&bytes);
        if let Some(fields) = compact.fields() {
            return Ok((fields, compact.position()));
        }
        if length >= LARGEST_HEADER.min(end - at) {
            return Err(invalid("has no header"));
        }
        length *= 8;
    }
}
