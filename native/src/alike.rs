//! Files that are alike: what one of them needs to be read is worked out once.
//!
//! Small ones are read in one go: what it takes to open, ask for and hand over each of them by
//! itself is many times what their rows take. Larger ones are opened one by one.

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

use crate::columns::{Columns, Wanted};
use crate::shared::Shared;
use crate::{guarded, headers, opened, texts, with_views};

/// What footers say of how to read the values: Arrow's writers of its types, Spark of the calendar.
const NOTES: [&str; 4] = [
    "ARROW:schema",
    "org.apache.spark.legacyDateTime",
    "org.apache.spark.legacyINT96",
    "org.apache.spark.timeZone",
];
/// It matters only where it is old: tables are written by many versions.
const VERSION: &str = "org.apache.spark.version";
/// The first that says in notes what is in the old calendar, of all types.
const FIRST_TO_NOTE: (u32, u32) = (3, 1);
/// Most values of a small file. A few bytes can stand for any number of them.
const MOST_VALUES: i64 = 1 << 20;
/// Largest page of a small file, decompressed, where the codec sets no bound.
const LARGEST_PAGE: i64 = 1 << 22;
/// Most rows of one of any size: for each a bit is made that says whether it is wanted.
const MOST_ROWS: i64 = 1 << 27;
/// Decompressed bytes for each byte in the file that nobody wonders at.
const USUAL_RATIO: i64 = 64;

type Note = (String, Option<String>);

/// What files have in common.
pub struct Pattern {
    columns: TypePtr,
    notes: Vec<Note>,
    leaves: Vec<usize>,
    /// Texts and bytes as views.
    options: ArrowReaderOptions,
    viewed: SchemaRef,
    /// How the columns of an opened file are shown, if not as in the file.
    shown: Option<SchemaRef>,
}

impl Pattern {
    /// As one of the files has it.
    pub fn of(
        path: &Path,
        leaves: Vec<usize>,
        shown: Option<SchemaRef>,
    ) -> Result<Self, ParquetError> {
        let (file, metadata) = opened(path)?;
        let (columns, notes) = (columns_of(&metadata), notes_of(&metadata));
        let footer = with_views(Arc::new(metadata))?;
        let mask = ProjectionMask::leaves(footer.parquet_schema(), leaves.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone());
        let viewed = builder.with_projection(mask).build()?.schema();
        let options = crate::as_parquet().with_schema(footer.schema().clone());
        Ok(Self {
            columns,
            notes,
            leaves,
            options,
            viewed,
            shown,
        })
    }

    /// The columns, texts and bytes as views.
    pub fn schema(&self) -> &Schema {
        &self.viewed
    }

    /// Return the rows of files up to the first that is unlike the others or cannot be read here,
    /// and how many files these are.
    pub fn read(
        &self,
        paths: &[PathBuf],
        text_bytes: Option<usize>,
    ) -> Result<(impl RecordBatchReader + use<>, usize), ArrowError> {
        let read = |path: &PathBuf| guarded(|| self.read_one(path).map_err(ArrowError::from));
        let found: Vec<_> = paths.iter().map_while(|path| read(path).ok()).collect();
        let count = found.len();
        let joined = concat_batches(&self.viewed, found.iter().flatten())?;
        let Some(most) = text_bytes else {
            return Ok((one(joined), count));
        };
        let fields: Vec<_> = self
            .viewed
            .fields()
            .iter()
            .map(texts::plain_field)
            .collect();
        let columns = joined.columns().iter().cloned();
        let columns = columns.map(|column| texts::plain(column, most));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let plain = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        Ok((one(plain), count))
    }

    /// Open a file that is like the others. It is an error if it is not, or if a column of a row
    /// group would take more than `most` bytes, and much more than it takes in the file.
    pub fn open(&self, path: &Path, most: i64) -> Result<Like, ParquetError> {
        let (file, metadata) = self.opened(path)?;
        let mut counts = metadata.row_groups().iter().map(|group| group.num_rows());
        let rows = counts.clone().fold(0, i64::saturating_add);
        let is_sound = metadata.file_metadata().num_rows() == rows && counts.all(|rows| rows >= 0);
        if !is_sound || rows > MOST_ROWS {
            let reason = "its footer contradicts itself, or speaks of very many rows";
            return Err(ParquetError::General(reason.into()));
        }
        for group in metadata.row_groups() {
            for chunk in self.leaves.iter().map(|leaf| group.column(*leaf)) {
                let pages = headers::check(&file, chunk, i64::MAX)?;
                let usual = chunk.compressed_size().saturating_mul(USUAL_RATIO);
                if pages.size > most.max(usual) {
                    return Err(ParquetError::General(
                        "it is small for what it holds".into(),
                    ));
                }
            }
        }
        Ok(Like {
            file,
            footer: ArrowReaderMetadata::try_new(Arc::new(metadata), self.options.clone())?,
            leaves: self.leaves.clone(),
            shown: self.shown.clone(),
        })
    }

    /// A file and its footer; an error if it is unlike the others.
    fn opened(&self, path: &Path) -> Result<(Shared, ParquetMetaData), ParquetError> {
        if !path.metadata()?.is_file() {
            return Err(ParquetError::General("it is no file".into())); // a pipe has no end
        }
        let (file, metadata) = opened(path)?;
        if columns_of(&metadata) != self.columns || notes_of(&metadata) != self.notes {
            return Err(ParquetError::General("it is unlike the others".into()));
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
            return Err(ParquetError::General("it has many rows".into()));
        }
        for group in metadata.row_groups() {
            for leaf in &self.leaves {
                headers::check(&file, group.column(*leaf), LARGEST_PAGE)?;
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

/// A file that is like others, opened; its pages were looked at.
pub struct Like {
    file: Shared,
    footer: ArrowReaderMetadata,
    leaves: Vec<usize>,
    shown: Option<SchemaRef>,
}

impl Like {
    /// How many rows it has.
    pub fn rows(&self) -> i64 {
        self.footer.metadata().file_metadata().num_rows()
    }

    /// How many bytes its rows take, by its footer.
    pub fn size(&self) -> i64 {
        let groups = self.footer.metadata().row_groups().iter();
        let sizes = groups.map(|group| group.total_byte_size());
        sizes.fold(0, i64::saturating_add)
    }

    /// Its rows, a batch at a time. `kept` and `text_bytes` are as in `Wanted`.
    pub fn read(
        &self,
        batch_rows: usize,
        kept: Option<Vec<u8>>,
        text_bytes: Option<usize>,
    ) -> Result<Columns, ParquetError> {
        let wanted = Wanted {
            leaves: self.leaves.clone(),
            row_groups: (0..self.footer.metadata().num_row_groups()).collect(),
            batch_rows,
            span: None,
            kept,
            text_bytes,
        };
        let columns = Columns::of(&self.file, &self.footer, wanted)?;
        Ok(match &self.shown {
            None => columns,
            Some(schema) => columns.shown_as(schema.clone()),
        })
    }
}

fn one(batch: RecordBatch) -> impl RecordBatchReader + use<> {
    let schema = batch.schema();
    RecordBatchIterator::new([Ok(batch)], schema)
}

fn columns_of(metadata: &ParquetMetaData) -> TypePtr {
    metadata.file_metadata().schema_descr().root_schema_ptr()
}

fn notes_of(metadata: &ParquetMetaData) -> Vec<Note> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let mut found: Vec<Note> = pairs
        .into_iter()
        .flatten()
        .filter(|pair| NOTES.contains(&pair.key.as_str()) || is_old(pair))
        .map(|pair| (pair.key.clone(), pair.value.clone()))
        .collect();
    found.sort();
    found
}

fn is_old(pair: &KeyValue) -> bool {
    let version = pair.value.as_deref().filter(|_| pair.key == VERSION);
    let mut parts = version.unwrap_or_default().split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < FIRST_TO_NOTE,
        _ => false,
    }
}
