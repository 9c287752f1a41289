//! Row selection: which decoded rows are kept, by a bitmap.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::{ArrowError, DataType};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use parquet::errors::ParquetError;

/// The selection among all rows of a read, consumed batch by batch.
pub struct RowSelection {
    count: usize,
    at: usize,
    /// A bit for each row, set if it is kept; None keeps all.
    kept: Option<BooleanBuffer>,
}

impl RowSelection {
    /// The selection among `count` rows; the lowest bit of a byte is the first row.
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
            let reason = format!("a bitmap of {} bytes does not fit {count} rows", bits.len());
            return Err(ParquetError::General(reason));
        }
        let kept = Some(BooleanBuffer::new(Buffer::from_vec(bits), 0, count));
        Ok(Self { count, at, kept })
    }

    /// The selection among the next rows, at most `most`; None at the end.
    pub fn next(&mut self, most: usize) -> Option<BatchSelection> {
        let rows = most.min(self.count - self.at);
        if rows == 0 {
            return None;
        }
        let bits = self.kept.as_ref().map(|kept| kept.slice(self.at, rows));
        self.at += rows;
        Some(BatchSelection::new(rows, bits))
    }
}

/// The selection among the rows of one batch, shared by its columns.
pub struct BatchSelection {
    rows: usize,
    kept: Option<FilterPredicate>,
}

impl BatchSelection {
    fn new(rows: usize, bits: Option<BooleanBuffer>) -> Self {
        let some = bits.filter(|bits| bits.count_set_bits() < rows);
        // Optimized once for all columns.
        let predicate = |bits| FilterBuilder::new(&BooleanArray::new(bits, None)).optimize();
        let kept = some.map(|bits| predicate(bits).build());
        Self { rows, kept }
    }

    /// The number of rows of the batch, before the selection.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Return the selected values of a column, which must have `rows` values.
    pub fn apply(&self, array: ArrayRef) -> Result<ArrayRef, ArrowError> {
        if array.len() != self.rows {
            return Err(ArrowError::ParquetError(format!(
                "{} rows were decoded instead of {}",
                array.len(),
                self.rows
            )));
        }
        let Some(kept) = &self.kept else {
            return Ok(array);
        };
        let selected = kept.filter(&array)?;
        Ok(if 2 * kept.count() < self.rows {
            compacted(selected)
        } else {
            selected
        })
    }
}

/// Copy views that would keep alive pages of which they show the smaller part.
fn compacted(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => array,
    }
}
