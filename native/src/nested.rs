//! Columns that are parts of structs and maps, decoded together, as the file nests them.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use crate::shared::Shared;
use crate::{check_columns, guarded, opened, texts, with_views};

/// Largest page, decompressed, where the codec sets no bound.
const LARGEST_PAGE: i64 = 1 << 28;
/// Most bytes that the texts of a leaf may take in a batch.
const MOST_TEXT: usize = 1 << 28;

/// A file whose footer was read: that of many row groups takes longer than some of them.
pub struct NestedFile {
    file: Shared,
    footer: ArrowReaderMetadata,
}

impl NestedFile {
    pub fn open(path: &Path) -> Result<Self, ParquetError> {
        let (file, metadata) = opened(path)?;
        let footer = with_views(Arc::new(metadata))?;
        Ok(Self { file, footer })
    }

    /// Some leaves of some row groups, a batch at a time.
    pub fn read(
        &self,
        leaves: &[usize],
        row_groups: Vec<usize>,
        batch_rows: usize,
    ) -> Result<Nested, ParquetError> {
        let (file, footer) = (self.file.clone(), self.footer.clone());
        check_columns(&file, footer.metadata(), leaves, &row_groups, LARGEST_PAGE)?;
        let mask = ProjectionMask::leaves(footer.parquet_schema(), leaves.iter().copied());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer);
        let reader = reader.with_projection(mask).with_row_groups(row_groups);
        let viewed = reader.with_batch_size(batch_rows).build()?;
        let schema = viewed.schema();
        let fields = schema.fields().iter().map(texts::plain_field);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Nested { viewed, schema })
    }
}

/// What is decoded as views, which bounds the memory that a dictionary can ask for, and then copied.
pub struct Nested {
    viewed: ParquetRecordBatchReader,
    schema: SchemaRef,
}

impl Nested {
    fn decode(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(batch) = self.viewed.next().transpose()? else {
            return Ok(None);
        };
        let columns = batch.columns().iter().cloned();
        let columns = columns.map(|column| texts::plain(column, MOST_TEXT));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map(Some)
    }
}

impl Iterator for Nested {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        guarded(|| self.decode()).transpose()
    }
}

impl RecordBatchReader for Nested {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
