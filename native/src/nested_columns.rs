//! Decode leaf columns of structs, lists and maps, with one reader, into nested arrays.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use crate::file_source::FileSource;
use crate::{check_columns, guarded, opened, strings, with_views};

/// Largest page, decompressed, where the codec sets no bound.
const LARGEST_PAGE: i64 = 1 << 28;
/// Most bytes that the strings of a leaf may take in a batch.
const MOST_STRING_BYTES: usize = 1 << 28;

/// An open file whose footer is parsed once: with many row groups that takes longer than decoding
/// some of them.
pub struct NestedFile {
    file: FileSource,
    footer: ArrowReaderMetadata,
}

impl NestedFile {
    pub fn open(path: &Path) -> Result<Self, ParquetError> {
        let (file, metadata) = opened(path)?;
        let footer = with_views(Arc::new(metadata))?;
        Ok(Self { file, footer })
    }

    /// Decode leaves of row groups in batches.
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
        let fields = schema.fields().iter().map(strings::plain_field);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Nested { viewed, schema })
    }
}

/// Batches that are decoded as views, which bounds the memory for dictionaries, and then copied.
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
        let columns = columns.map(|column| strings::plain(column, MOST_STRING_BYTES));
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
