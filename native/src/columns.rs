//! Flat columns of a file, each with a reader of its own, a batch at a time.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use crate::choice::{Choice, Rows};
use crate::crew::shared_out;
use crate::shared::Shared;
use crate::{check_columns, guarded, opened, texts, with_views};

/// Values of a batch from which on another thread brings more than it costs.
const MANY_VALUES: usize = 1 << 16;
/// The same for the first batch, which reads dictionaries and passes over rows: bytes of columns.
const MANY_BYTES: i64 = 1 << 20;

/// What is to be read of a file.
pub struct Wanted {
    /// Top-level columns, by their place in the Parquet schema.
    pub leaves: Vec<usize>,
    pub row_groups: Vec<usize>,
    /// Most rows to decode at once.
    pub batch_rows: usize,
    /// Between which of the rows, from the first of the row groups on; None reads all.
    pub span: Option<(usize, usize)>,
    /// Which of the rows; None keeps all.
    pub kept: Option<Vec<u8>>,
    /// Most bytes that the texts of a column may take in a batch; None leaves them views.
    pub text_bytes: Option<usize>,
}

/// Some columns of some row groups, a batch at a time.
pub struct Columns {
    schema: SchemaRef,
    readers: Vec<ParquetRecordBatchReader>,
    /// The readers' places, the largest column first.
    order: Vec<usize>,
    /// How large they are together, until the first batch.
    unopened: Option<i64>,
    batch_rows: usize,
    rows: Rows,
    text_bytes: Option<usize>,
}

impl Columns {
    pub fn open(path: &Path, wanted: Wanted) -> Result<Self, ParquetError> {
        let (leaves, row_groups) = (&wanted.leaves, &wanted.row_groups);
        let (file, metadata) = opened(path)?;
        check_columns(&file, &metadata, leaves, row_groups, i64::MAX)?; // who asks has summed pages up
        Self::of(&file, &with_views(Arc::new(metadata))?, wanted)
    }

    /// Those of a file whose pages were looked at.
    pub fn of(
        file: &Shared,
        footer: &ArrowReaderMetadata,
        wanted: Wanted,
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
            .map(|field| match wanted.text_bytes {
                None => field,
                Some(_) => texts::plain_field(&field),
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
            rows: Rows::new(end - start, wanted.kept)?,
            text_bytes: wanted.text_bytes,
        })
    }

    /// The same in another schema, whose columns are of the same types.
    pub fn shown_as(self, schema: SchemaRef) -> Self {
        Self { schema, ..self }
    }

    /// Decode the next rows of every column, and keep the chosen ones; None at the end.
    fn decode(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let choice = self.rows.next(self.batch_rows);
        let text_bytes = self.text_bytes;
        let values = choice.as_ref().map_or(0, Choice::rows) * self.readers.len();
        let opening = self.unopened.take().unwrap_or(0);
        let is_much = values >= MANY_VALUES || opening >= MANY_BYTES;
        let columns = shared_out(&mut self.readers, &self.order, is_much, |reader| {
            guarded(|| decode_one(reader, choice.as_ref(), text_bytes))
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

/// Decode the next rows of one column, and keep the chosen ones. Without a choice there must be
/// none left: asked once more, a reader lets go of its last page at once, which spared a full read
/// a quarter of its page faults.
fn decode_one(
    reader: &mut ParquetRecordBatchReader,
    choice: Option<&Choice>,
    text_bytes: Option<usize>,
) -> Result<Option<ArrayRef>, ArrowError> {
    let chosen = match (reader.next().transpose()?, choice) {
        (None, None) => return Ok(None),
        (Some(batch), Some(choice)) => choice.of(batch.column(0).clone())?,
        _ => {
            let reason = "there are more or fewer rows than its footer says";
            return Err(ArrowError::ParquetError(reason.into()));
        }
    };
    match text_bytes {
        None => Ok(Some(chosen)),
        Some(most) => texts::plain(chosen, most).map(Some),
    }
}

/// How large a column is in some row groups, by what the footer says.
fn size_of(footer: &ArrowReaderMetadata, row_groups: &[usize], leaf: usize) -> i64 {
    let groups = row_groups.iter().map(|at| footer.metadata().row_group(*at));
    let sizes = groups.map(|group| group.column(leaf).uncompressed_size());
    sizes.fold(0, i64::saturating_add)
}
