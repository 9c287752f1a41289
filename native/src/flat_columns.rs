//! Decode flat columns of a file in batches, each column with its own reader.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use crate::column_workers::for_each_column;
use crate::file_source::FileSource;
use crate::row_selection::{BatchSelection, RowSelection};
use crate::{check_columns, guarded, opened, strings, with_views};

/// Values of a batch from which on another thread gains more than it costs.
const MANY_VALUES: usize = 1 << 16;
/// The same for the first batch, which reads dictionaries and skips rows: bytes of columns.
const MANY_BYTES: i64 = 1 << 20;

/// What to read of a file.
pub struct ReadRequest {
    /// Top-level columns, by their index in the Parquet schema.
    pub leaves: Vec<usize>,
    pub row_groups: Vec<usize>,
    /// Most rows to decode at once.
    pub batch_rows: usize,
    /// Range of rows, counted from the first of the row groups; None reads all.
    pub span: Option<(usize, usize)>,
    /// Bitmap of the rows of the range that are kept; None keeps all.
    pub kept: Option<Vec<u8>>,
    /// Most bytes that the strings of a column may take in a batch; None leaves them views.
    pub max_string_bytes: Option<usize>,
}

/// Columns of row groups, in batches.
pub struct Columns {
    schema: SchemaRef,
    readers: Vec<ParquetRecordBatchReader>,
    /// Indices of the readers, the largest column first.
    order: Vec<usize>,
    /// Their total size, until the first batch is read.
    unopened: Option<i64>,
    batch_rows: usize,
    rows: RowSelection,
    max_string_bytes: Option<usize>,
}

impl Columns {
    pub fn open(path: &Path, wanted: ReadRequest) -> Result<Self, ParquetError> {
        let (leaves, row_groups) = (&wanted.leaves, &wanted.row_groups);
        let (file, metadata) = opened(path)?;
        check_columns(&file, &metadata, leaves, row_groups, i64::MAX)?; // the caller has bounded the pages
        Self::of(&file, &with_views(Arc::new(metadata))?, wanted)
    }

    /// The columns of a file whose page headers are validated.
    pub fn of(
        file: &FileSource,
        footer: &ArrowReaderMetadata,
        wanted: ReadRequest,
    ) -> Result<Self, ParquetError> {
        let (leaves, row_groups) = (&wanted.leaves, &wanted.row_groups);
        let rows: i64 = row_groups
            .iter()
            .map(|at| footer.metadata().row_group(*at).num_rows())
            .sum();
        let rows = usize::try_from(rows).unwrap_or(0);
        let (start, end) = wanted.span.unwrap_or((0, rows));
        if start > end || end > rows {
            return Err(ParquetError::General(format!(
                "rows {start} to {end} are not among its {rows}"
            )));
        }
        let readers = leaves
            .iter()
            .map(|leaf| {
                let mask = ProjectionMask::leaves(footer.parquet_schema(), [*leaf]);
                let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
                    file.clone(),
                    footer.clone(),
                )
                .with_projection(mask)
                .with_row_groups(row_groups.to_vec())
                .with_batch_size(wanted.batch_rows);
                match wanted.span {
                    None => reader.build(),
                    Some(_) => reader.with_offset(start).with_limit(end - start).build(),
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        let fields: Vec<_> = readers
            .iter()
            .flat_map(|reader| reader.schema().fields().to_vec())
            .map(|field| match wanted.max_string_bytes {
                None => field,
                Some(_) => strings::plain_field(&field),
            })
            .collect();
        let sizes: Vec<_> = leaves
            .iter()
            .map(|leaf| size_of(footer, row_groups, *leaf))
            .collect();
        let mut order: Vec<_> = (0..leaves.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(sizes[*at]));
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            readers,
            order,
            unopened: Some(sizes.into_iter().fold(0, i64::saturating_add)),
            batch_rows: wanted.batch_rows,
            rows: RowSelection::new(end - start, wanted.kept)?,
            max_string_bytes: wanted.max_string_bytes,
        })
    }

    /// Replace the schema by one with the same types.
    pub fn shown_as(self, schema: SchemaRef) -> Self {
        Self { schema, ..self }
    }

    /// Decode the next rows of every column, and keep the selected ones; None at the end.
    fn decode(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let selection = self.rows.next(self.batch_rows);
        let max_string_bytes = self.max_string_bytes;
        let values = selection.as_ref().map_or(0, BatchSelection::rows) * self.readers.len();
        let opening = self.unopened.take().unwrap_or(0);
        let is_large = values >= MANY_VALUES || opening >= MANY_BYTES;
        let columns = for_each_column(&mut self.readers, &self.order, is_large, |reader| {
            guarded(|| decode_one(reader, selection.as_ref(), max_string_bytes))
        })?;
        match columns.into_iter().collect::<Option<Vec<_>>>() {
            Some(columns) => RecordBatch::try_new(self.schema.clone(), columns).map(Some),
            None => Ok(None),
        }
    }
}

impl Iterator for Columns {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decode().transpose()
    }
}

impl RecordBatchReader for Columns {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Decode the next rows of one column, and keep the selected ones. Without a selection no rows may
/// be left: the extra call makes the reader release its last page, which avoids a quarter of the
/// page faults of a full read.
fn decode_one(
    reader: &mut ParquetRecordBatchReader,
    selection: Option<&BatchSelection>,
    max_string_bytes: Option<usize>,
) -> Result<Option<ArrayRef>, ArrowError> {
    let selected = match (reader.next().transpose()?, selection) {
        (None, None) => return Ok(None),
        (Some(batch), Some(selection)) => selection.apply(batch.column(0).clone())?,
        _ => {
            let reason = "there are more or fewer rows than its footer says";
            return Err(ArrowError::ParquetError(reason.into()));
        }
    };
    match max_string_bytes {
        None => Ok(Some(selected)),
        Some(most) => strings::plain(selected, most).map(Some),
    }
}

/// Uncompressed size of a column in row groups, by the footer.
fn size_of(footer: &ArrowReaderMetadata, row_groups: &[usize], leaf: usize) -> i64 {
    let groups = row_groups.iter().map(|at| footer.metadata().row_group(*at));
    let sizes = groups.map(|group| group.column(leaf).uncompressed_size());
    sizes.fold(0, i64::saturating_add)
}
