//! Fast validation of footers. A footer that is not valid here may come from an unusual writer:
//! the caller then validates it in Python, which finds the reason.

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::file_source::FileSource;
use crate::thrift::{BINARY, BOOL, Compact, I16, I32, I64, LIST, STRUCT};

const BYTES: i64 = 6;
const FIXED: i64 = 7;
const CODECS: std::ops::Range<i64> = 0..8;
const REPEATED: i64 = 2;
const MAGIC: &[u8] = b"PAR1";
/// Bytes of the footer's length and the magic number.
const END: u64 = 8;
/// Most bytes of a footer.
const LONGEST: u64 = 256 << 20;
/// Most levels of nested columns.
const DEEPEST: usize = 64;
/// Bytes of a value, by physical type; 0 for byte arrays, whose length varies.
const WIDTHS: [i64; 8] = [1, 4, 8, 12, 4, 8, 0, 0];

// Types of the fields of structs, by number; later fields may have any type.
const FILE: [u8; 9] = [I32, LIST, I64, LIST, LIST, BINARY, LIST, STRUCT, BINARY];
const ELEMENT: [u8; 10] = [I32, I32, I32, BINARY, I32, I32, I32, I32, I32, STRUCT];
const ROW_GROUP: [u8; 7] = [LIST, I64, I64, LIST, I64, I64, I16];
const CHUNK: [u8; 9] = [BINARY, I64, STRUCT, I64, I32, I64, I32, STRUCT, BINARY];
const DETAILS: [u8; 17] = [
    I32, LIST, LIST, I32, I64, I64, I64, LIST, I64, I64, I64, STRUCT, LIST, I64, I32, STRUCT,
    STRUCT,
];
const STATISTICS: [u8; 9] = [BINARY, BINARY, I64, I64, BINARY, BINARY, BOOL, BOOL, I64];
const SIZES: [u8; 3] = [I64, LIST, LIST];

/// A leaf column of the schema.
struct Leaf {
    kind: i64,
    width: i64,
    repetitions: usize,
    definitions: usize,
}

/// Read the bytes of a file's footer.
pub fn read(file: &FileSource) -> Result<Bytes> {
    let size = file.len();
    let end = file.get_bytes(size.saturating_sub(END), END as usize)?;
    let (length, magic) = end.split_at(4);
    if magic != MAGIC {
        return Err(ParquetError::General("it is not a Parquet file".into()));
    }
    let length = u64::from(u32::from_le_bytes([
        length[0], length[1], length[2], length[3],
    ]));
    let start = size.checked_sub(END + length);
    let start = start.filter(|_| length <= LONGEST);
    let start = start.ok_or_else(|| ParquetError::EOF("its footer is too long".into()))?;
    file.get_bytes(start, length as usize)
}

/// Whether the column chunks of all row groups match the schema, and have codecs and statistics
/// that such columns can have.
pub fn is_valid(footer: &[u8]) -> bool {
    let mut leaves = None;
    let mut compact = Compact::new(footer);
    let walked = compact.each_field(&FILE, |compact, field, kind| match field {
        2 => {
            leaves = Some(schema(compact)?);
            Some(())
        }
        4 => row_groups(compact, leaves.as_ref()?),
        5 | 7 => structs(compact),
        _ => compact.skip_value(kind),
    });
    walked.is_some()
}

/// Read the schema, whose elements are in depth-first order.
fn schema(compact: &mut Compact) -> Option<Vec<Leaf>> {
    let mut leaves = Vec::new();
    let mut open: Vec<(i64, usize, usize)> = Vec::new(); // children to come, enclosing levels
    for at in 0..compact.list(STRUCT)? {
        let element = Element::read(compact)?;
        let (repetitions, definitions) = match open.last_mut() {
            None if at == 0 => (1, 1),
            None => return None,
            Some((left, repetitions, definitions)) => {
                *left -= 1;
                let is_repeated = usize::from(element.repetition == REPEATED);
                let is_optional = usize::from(element.repetition != 0);
                (*repetitions + is_repeated, *definitions + is_optional)
            }
        };
        match (element.kind, element.children) {
            (None, Some(1..)) if open.len() < DEEPEST => {
                open.push((element.children?, repetitions, definitions));
            }
            (Some(kind), None | Some(0)) if at > 0 => leaves.push(Leaf {
                kind,
                width: match kind {
                    FIXED => element.length.filter(|length| *length > 0)?,
                    _ => *WIDTHS.get(usize::try_from(kind).ok()?)?,
                },
                repetitions,
                definitions,
            }),
            _ => return None,
        }
        while open.last().is_some_and(|(left, ..)| *left == 0) {
            open.pop();
        }
    }
    open.is_empty().then_some(leaves)
}

/// An element of the schema.
#[derive(Default)]
struct Element {
    kind: Option<i64>,
    length: Option<i64>,
    repetition: i64,
    children: Option<i64>,
}

impl Element {
    fn read(compact: &mut Compact) -> Option<Self> {
        let mut found = Self::default();
        compact.each_field(&ELEMENT, |compact, field, kind| {
            match field {
                1 => found.kind = Some(compact.int32()?),
                2 => found.length = Some(compact.int32()?),
                3 => found.repetition = compact.int32()?,
                5 => found.children = Some(compact.int32()?),
                _ => compact.skip_value(kind)?,
            }
            Some(())
        })?;
        (0..=REPEATED).contains(&found.repetition).then_some(found)
    }
}

fn row_groups(compact: &mut Compact, leaves: &[Leaf]) -> Option<()> {
    for _ in 0..compact.list(STRUCT)? {
        compact.each_field(&ROW_GROUP, |compact, field, kind| match field {
            1 => chunks(compact, leaves),
            4 => structs(compact),
            _ => compact.skip_value(kind),
        })?;
    }
    Some(())
}

fn chunks(compact: &mut Compact, leaves: &[Leaf]) -> Option<()> {
    if compact.list(STRUCT)? != leaves.len() {
        return None;
    }
    for leaf in leaves {
        let mut is_described = false;
        compact.each_field(&CHUNK, |compact, field, kind| match field {
            3 => {
                is_described = true;
                details(compact, leaf)
            }
            8 => None, // encrypted
            _ => compact.skip_value(kind),
        })?;
        if !is_described {
            return None;
        }
    }
    Some(())
}

fn details(compact: &mut Compact, leaf: &Leaf) -> Option<()> {
    let (mut physical, mut codec) = (None, None);
    compact.each_field(&DETAILS, |compact, field, kind| match field {
        1 => {
            physical = Some(compact.int32()?);
            Some(())
        }
        2 => compact.skip_list(I32).map(|_| ()),
        3 => compact.skip_list(BINARY).map(|_| ()),
        4 => {
            codec = Some(compact.int32()?);
            Some(())
        }
        8 | 13 => structs(compact),
        12 => statistics(compact, leaf),
        16 => sizes(compact, leaf),
        17 => None, // geospatial statistics are rare
        _ => compact.skip_value(kind),
    })?;
    (physical? == leaf.kind && CODECS.contains(&codec?)).then_some(())
}

/// Bounds must have the length of values.
fn statistics(compact: &mut Compact, leaf: &Leaf) -> Option<()> {
    compact.each_field(&STATISTICS, |compact, field, kind| match field {
        1 | 2 | 5 | 6 => {
            let length = compact.skip_binary()?;
            (leaf.kind == BYTES || length == leaf.width).then_some(())
        }
        _ => compact.skip_value(kind),
    })
}

/// Only byte arrays have a total length, and histograms have every level or none.
fn sizes(compact: &mut Compact, leaf: &Leaf) -> Option<()> {
    compact.each_field(&SIZES, |compact, field, kind| match field {
        1 if leaf.kind != BYTES => None,
        2 => levels(compact.skip_list(I64)?, leaf.repetitions),
        3 => levels(compact.skip_list(I64)?, leaf.definitions),
        _ => compact.skip_value(kind),
    })
}

fn levels(counted: usize, all: usize) -> Option<()> {
    (counted == 0 || counted == all).then_some(())
}

fn structs(compact: &mut Compact) -> Option<()> {
    compact.skip_list(STRUCT).map(|_| ())
}
