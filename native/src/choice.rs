//! Which of the rows that are decoded are wanted.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::{ArrowError, DataType};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use parquet::errors::ParquetError;

/// The rows that are still to be decoded.
pub struct Rows {
    count: usize,
    at: usize,
    /// A bit for each, whether it is wanted; None wants all.
    kept: Option<BooleanBuffer>,
}

impl Rows {
    /// So many rows; bits are counted from the lowest of a byte on.
    pub fn new(count: usize, kept: Option<Vec<u8>>) -> Result<Self, ParquetError> {
        let at = 0;
        let Some(bits) = kept else {
            return Ok(Self {
                count,
                at,
                kept: None,
            });
        };
        if bits.len() != count.div_ceil(8) {
            let reason = format!("{} bytes do not choose among {count} rows", bits.len());
            return Err(ParquetError::General(reason));
        }
        let kept = Some(BooleanBuffer::new(Buffer::from_vec(bits), 0, count));
        Ok(Self { count, at, kept })
    }

    /// The choice among the next ones, at most so many; None if none are left.
    pub fn next(&mut self, most: usize) -> Option<Choice> {
        let rows = most.min(self.count - self.at);
        if rows == 0 {
            return None;
        }
        let bits = self.kept.as_ref().map(|kept| kept.slice(self.at, rows));
        self.at += rows;
        Some(Choice::new(rows, bits))
    }
}

/// The choice among the rows of one batch; columns share it.
pub struct Choice {
    rows: usize,
    kept: Option<FilterPredicate>,
}

impl Choice {
    fn new(rows: usize, bits: Option<BooleanBuffer>) -> Self {
        let some = bits.filter(|bits| bits.count_set_bits() < rows);
        // Worked out once, and not again by each of the columns.
        let predicate = |bits| FilterBuilder::new(&BooleanArray::new(bits, None)).optimize();
        let kept = some.map(|bits| predicate(bits).build());
        Self { rows, kept }
    }

    /// How many rows it is made among.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Return the chosen values of a column, which must have as many as there are rows.
    pub fn of(&self, array: ArrayRef) -> Result<ArrayRef, ArrowError> {
        if array.len() != self.rows {
            return Err(ArrowError::ParquetError(format!(
                "{} rows were found where {} should be",
                array.len(),
                self.rows
            )));
        }
        let Some(kept) = &self.kept else {
            return Ok(array);
        };
        let chosen = kept.filter(&array)?;
        Ok(if 2 * kept.count() < self.rows {
            unbound(chosen)
        } else {
            chosen
        })
    }
}

/// Without the pages of which views show the smaller part.
fn unbound(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => array,
    }
}
