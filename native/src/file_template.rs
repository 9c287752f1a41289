//! Templates: the reader options of files with the same schema are derived once, from one of them.
//!
//! Small files are read many in one call: opening each and handing over its rows costs many times
//! what decoding does. Larger files are opened one by one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::schema::types::TypePtr;

use crate::file_source::FileSource;
use crate::flat_columns::{Columns, ReadRequest};
use crate::{guarded, opened, page_headers, strings, with_views};

/// Keys of the footer that change how values are read: Arrow's types, Spark's calendar.
const READ_KEYS: [&str; 4] = [
    "ARROW:schema",
    "org.apache.spark.legacyDateTime",
    "org.apache.spark.legacyINT96",
    "org.apache.spark.timeZone",
];
/// Compared only if it is old: tables are written by many versions.
const VERSION: &str = "org.apache.spark.version";
/// The first Spark version that marks files of the legacy calendar, for all types.
const FIRST_WITH_MARKS: (u32, u32) = (3, 1);
/// Most values of a small file: a few bytes can encode any number of them.
const MOST_VALUES: i64 = 1 << 20;
/// Largest page of a small file, decompressed, where the codec sets no bound.
const LARGEST_PAGE: i64 = 1 << 22;
/// Most rows of an opened file: the row selection takes a bit for each.
const MOST_ROWS: i64 = 1 << 27;
/// Decompressed bytes per byte in the file that are not suspicious.
const USUAL_RATIO: i64 = 64;

type KeyValuePair = (String, Option<String>);

/// What matching files have in common.
pub struct Template {
    columns: TypePtr,
    key_values: Vec<KeyValuePair>,
    leaves: Vec<usize>,
    /// Strings and binaries as views.
    options: ArrowReaderOptions,
    viewed: SchemaRef,
    /// Schema of opened files, if not that of the file.
    shown: Option<SchemaRef>,
}

impl Template {
    /// The template of a file.
    pub fn from_file(
        path: &Path,
        leaves: Vec<usize>,
        shown: Option<SchemaRef>,
    ) -> Result<Self, ParquetError> {
        let (file, metadata) = opened(path)?;
        let (columns, key_values) = (columns_of(&metadata), key_values_of(&metadata));
        let footer = with_views(Arc::new(metadata))?;
        let mask = ProjectionMask::leaves(footer.parquet_schema(), leaves.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone());
        let viewed = builder.with_projection(mask).build()?.schema();
        let options = crate::as_parquet().with_schema(footer.schema().clone());
        Ok(Self {
            columns,
            key_values,
            leaves,
            options,
            viewed,
            shown,
        })
    }

    /// The schema of the columns; strings and binaries are views.
    pub fn schema(&self) -> &Schema {
        &self.viewed
    }

    /// Return the rows of files up to the first that does not match or cannot be read here, and
    /// the number of files.
    pub fn read(
        &self,
        paths: &[PathBuf],
        max_string_bytes: Option<usize>,
    ) -> Result<(impl RecordBatchReader + use<>, usize), ArrowError> {
        let read = |path: &PathBuf| guarded(|| self.read_one(path).map_err(ArrowError::from));
        let found: Vec<_> = paths.iter().map_while(|path| read(path).ok()).collect();
        let count = found.len();
        let joined = concat_batches(&self.viewed, found.iter().flatten())?;
        let Some(most) = max_string_bytes else {
            return Ok((single_batch(joined), count));
        };
        let fields: Vec<_> = self
            .viewed
            .fields()
            .iter()
            .map(strings::plain_field)
            .collect();
        let columns = joined.columns().iter().cloned();
        let columns = columns.map(|column| strings::plain(column, most));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let plain = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        Ok((single_batch(plain), count))
    }

    /// Open a file. It is an error if it does not match, or if a column of a row group takes more
    /// than `most` bytes, and much more than in the file.
    pub fn open(&self, path: &Path, most: i64) -> Result<OpenedFile, ParquetError> {
        let (file, metadata) = self.opened(path)?;
        let mut counts = metadata.row_groups().iter().map(|group| group.num_rows());
        let rows = counts.clone().fold(0, i64::saturating_add);
        let is_consistent =
            metadata.file_metadata().num_rows() == rows && counts.all(|rows| rows >= 0);
        if !is_consistent || rows > MOST_ROWS {
            let reason = "its footer contradicts itself, or has too many rows";
            return Err(ParquetError::General(reason.into()));
        }
        for group in metadata.row_groups() {
            for chunk in self.leaves.iter().map(|leaf| group.column(*leaf)) {
                let pages = page_headers::check(&file, chunk, i64::MAX)?;
                let usual = chunk.compressed_size().saturating_mul(USUAL_RATIO);
                if pages.size > most.max(usual) {
                    return Err(ParquetError::General(
                        "it decompresses to too many bytes".into(),
                    ));
                }
            }
        }
        Ok(OpenedFile {
            file,
            footer: ArrowReaderMetadata::try_new(Arc::new(metadata), self.options.clone())?,
            leaves: self.leaves.clone(),
            shown: self.shown.clone(),
        })
    }

    /// A file and its footer; an error if it does not match.
    fn opened(&self, path: &Path) -> Result<(FileSource, ParquetMetaData), ParquetError> {
        if !path.metadata()?.is_file() {
            return Err(ParquetError::General("it is not a file".into())); // a pipe has no end
        }
        let (file, metadata) = opened(path)?;
        if columns_of(&metadata) != self.columns || key_values_of(&metadata) != self.key_values {
            return Err(ParquetError::General(
                "it does not match the template".into(),
            ));
        }
        Ok((file, metadata))
    }

    fn read_one(&self, path: &Path) -> Result<Vec<RecordBatch>, ParquetError> {
        let (file, metadata) = self.opened(path)?;
        let rows: i64 = metadata
            .row_groups()
            .iter()
            .map(|group| group.num_rows())
            .sum();
        if !(0..=MOST_VALUES / self.leaves.len().max(1) as i64).contains(&rows) {
            return Err(ParquetError::General("it has too many rows".into()));
        }
        for group in metadata.row_groups() {
            for leaf in &self.leaves {
                page_headers::check(&file, group.column(*leaf), LARGEST_PAGE)?;
            }
        }
        let footer = ArrowReaderMetadata::try_new(Arc::new(metadata), self.options.clone())?;
        let mask = ProjectionMask::leaves(footer.parquet_schema(), self.leaves.iter().copied());
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer)
            .with_projection(mask)
            .with_batch_size(rows.max(1) as usize)
            .build()?
            .collect::<Result<Vec<_>, _>>()?;
        let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if found as i64 != rows {
            let reason = "there are more or fewer rows than its footer says";
            return Err(ParquetError::General(reason.into()));
        }
        Ok(batches)
    }
}

/// A matching file whose page headers are validated.
pub struct OpenedFile {
    file: FileSource,
    footer: ArrowReaderMetadata,
    leaves: Vec<usize>,
    shown: Option<SchemaRef>,
}

impl OpenedFile {
    /// Its number of rows.
    pub fn rows(&self) -> i64 {
        self.footer.metadata().file_metadata().num_rows()
    }

    /// Uncompressed bytes of its row groups, by its footer.
    pub fn size(&self) -> i64 {
        let groups = self.footer.metadata().row_groups().iter();
        let sizes = groups.map(|group| group.total_byte_size());
        sizes.fold(0, i64::saturating_add)
    }

    /// Decode its rows in batches. `kept` and `max_string_bytes` are as in `ReadRequest`.
    pub fn read(
        &self,
        batch_rows: usize,
        kept: Option<Vec<u8>>,
        max_string_bytes: Option<usize>,
    ) -> Result<Columns, ParquetError> {
        let wanted = ReadRequest {
            leaves: self.leaves.clone(),
            row_groups: (0..self.footer.metadata().num_row_groups()).collect(),
            batch_rows,
            span: None,
            kept,
            max_string_bytes,
        };
        let columns = Columns::of(&self.file, &self.footer, wanted)?;
        Ok(match &self.shown {
            None => columns,
            Some(schema) => columns.shown_as(schema.clone()),
        })
    }
}

fn single_batch(batch: RecordBatch) -> impl RecordBatchReader + use<> {
    let schema = batch.schema();
    RecordBatchIterator::new([Ok(batch)], schema)
}

fn columns_of(metadata: &ParquetMetaData) -> TypePtr {
    metadata.file_metadata().schema_descr().root_schema_ptr()
}

fn key_values_of(metadata: &ParquetMetaData) -> Vec<KeyValuePair> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let mut found: Vec<KeyValuePair> = pairs
        .into_iter()
        .flatten()
        .filter(|pair| READ_KEYS.contains(&pair.key.as_str()) || is_old(pair))
        .map(|pair| (pair.key.clone(), pair.value.clone()))
        .collect();
    found.sort();
    found
}

fn is_old(pair: &KeyValue) -> bool {
    let version = pair.value.as_deref().filter(|_| pair.key == VERSION);
    let mut parts = version.unwrap_or_default().split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < FIRST_WITH_MARKS,
        _ => false,
    }
}
