//! Columns of local Parquet files, decoded to Arrow. Texts and bytes come as views, which are not
//! copied out of the pages that they are in, or one after the other in memory of their own. Rows
//! that are not wanted are left out of a column as soon as it is decoded.
//!
//! Every column has a reader of its own, and the readers are shared out among threads that live as
//! long as one batch: nothing stays behind that a fork of the Python process could break. Nested
//! columns have one reader together (`nested`).
//!
//! Beside that, rows that are sorted in more memory than there is (`runs`). Knows nothing of tables.

mod alike;
mod choice;
mod compact;
mod crew;
mod headers;
mod nested;
mod recycle;
mod runs;
mod shared;
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use alike::Pattern;
use choice::{Choice, Rows};
use crew::shared_out;
use nested::NestedFile;
use recycle::Recycling;
use shared::Shared;

#[global_allocator]
static MEMORY: Recycling = Recycling::new();

/// Of what Python calls here: a package of another number is not for this lazydelta.
const INTERFACE: u32 = 5;
/// Values of a batch from which on another thread brings more than it costs.
const MANY_VALUES: usize = 1 << 16;
/// The same for the first batch, which reads dictionaries and passes over rows: bytes of columns.
const MANY_BYTES: i64 = 1 << 20;
/// Most values of lists and maps for a row, on average: a few bytes can stand for any number of them.
const MOST_IN_A_LIST: i64 = 64;

/// What is to be read of a file.
struct Wanted {
    /// Top-level columns, by their place in the Parquet schema.
    leaves: Vec<usize>,
    row_groups: Vec<usize>,
    /// Most rows to decode at once.
    batch_rows: usize,
    /// Between which of the rows, from the first of the row groups on; None reads all.
    span: Option<(usize, usize)>,
    /// Which of the rows; None keeps all.
    kept: Option<Vec<u8>>,
    /// Most bytes that the texts of a column may take in a batch; None leaves them views.
    text_bytes: Option<usize>,
}

/// Some columns of some row groups, a batch at a time.
struct Columns {
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
    fn open(path: &Path, wanted: Wanted) -> Result<Self, ParquetError> {
        let (leaves, row_groups) = (&wanted.leaves, &wanted.row_groups);
        let (file, metadata) = opened(path)?;
        check_columns(&file, &metadata, leaves, row_groups, i64::MAX)?; // who asks has summed pages up
        let footer = with_views(Arc::new(metadata))?;
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
            .map(|leaf| size_of(&footer, row_groups, *leaf))
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

/// A file and its footer.
fn opened(path: &Path) -> Result<(Shared, ParquetMetaData), ParquetError> {
    let file = Shared::open(path)?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file)?;
    Ok((file, metadata))
}

/// Look at the pages of columns before they are decoded. `largest` is how large a page may become
/// where its codec sets no bound.
fn check_columns(
    file: &Shared,
    metadata: &ParquetMetaData,
    leaves: &[usize],
    row_groups: &[usize],
    largest: i64,
) -> Result<(), ParquetError> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    let groups = metadata.num_row_groups();
    if leaves.iter().any(|leaf| *leaf >= columns) || row_groups.iter().any(|at| *at >= groups) {
        return Err(ParquetError::General(
            "it has changed since it was opened".into(),
        ));
    }
    for group in row_groups.iter().map(|at| metadata.row_group(*at)) {
        for chunk in leaves.iter().map(|leaf| group.column(*leaf)) {
            let values = headers::check(file, chunk, largest)?;
            let is_list = chunk.column_descr().max_rep_level() > 0;
            if is_list && values / MOST_IN_A_LIST > group.num_rows() {
                return Err(ParquetError::General("its lists are long".into()));
            }
        }
    }
    Ok(())
}

/// How large a column is in some row groups, by what the footer says.
fn size_of(footer: &ArrowReaderMetadata, row_groups: &[usize], leaf: usize) -> i64 {
    let groups = row_groups.iter().map(|at| footer.metadata().row_group(*at));
    let sizes = groups.map(|group| group.column(leaf).uncompressed_size());
    sizes.fold(0, i64::saturating_add)
}

/// Types as Parquet has them, whatever the writer noted of Arrow's: other tools copy such notes.
fn as_parquet() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

/// A footer, read so that texts and bytes are views.
fn with_views(metadata: Arc<ParquetMetaData>) -> Result<ArrowReaderMetadata, ParquetError> {
    let footer = ArrowReaderMetadata::try_new(metadata.clone(), as_parquet())?;
    let fields = footer.schema().fields().iter().map(texts::viewed_field);
    let options = as_parquet().with_schema(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
    ArrowReaderMetadata::try_new(metadata, options)
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

/// A panic in the decoder, which no C caller could survive, is an error of the file.
fn guarded<T>(work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(ArrowError::ParquetError(
            words.unwrap_or("the decoder gave up").into(),
        ))
    })
}

/// Batches of a file; anything that speaks Arrow's C stream interface reads them, once.
#[pyclass(frozen)]
struct Batches(Mutex<Option<Box<dyn RecordBatchReader + Send>>>);

impl Batches {
    fn new(batches: impl RecordBatchReader + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(batches))))
    }
}

#[pymethods]
impl Batches {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // it may be ignored, by the interface's own rules
        let columns = self.0.lock().ok().and_then(|mut columns| columns.take());
        let columns = columns.ok_or_else(|| PyValueError::new_err("these batches were read"))?;
        let stream = FFI_ArrowArrayStream::new(columns);
        PyCapsule::new(py, stream, Some(c"arrow_array_stream".into()))
    }
}

/// Decode some columns of a local file.
///
/// `span` is where to begin and where to end in the rows of the row groups. `kept` has a bit for
/// each row in between, the lowest first: those that are not set are left out. With `text_bytes`,
/// texts and bytes come one after the other instead of as views, and a batch in which those of a
/// column would take more is an error.
///
/// Raises `OSError` if it cannot be opened, and `ValueError` if it is no Parquet file or damaged.
#[pyfunction]
#[pyo3(signature = (path, leaves, row_groups, batch_rows, *, span=None, kept=None, text_bytes=None))]
#[allow(clippy::too_many_arguments)] // they have names where it is called
fn read(
    py: Python<'_>,
    path: PathBuf,
    leaves: Vec<usize>,
    row_groups: Vec<usize>,
    batch_rows: usize,
    span: Option<(usize, usize)>,
    kept: Option<&[u8]>,
    text_bytes: Option<usize>,
) -> PyResult<Batches> {
    let wanted = Wanted {
        leaves,
        row_groups,
        batch_rows,
        span,
        kept: kept.map(<[u8]>::to_vec),
        text_bytes,
    };
    py.detach(|| footer_guarded(|| Columns::open(&path, wanted)))
        .map(Batches::new)
        .map_err(in_python)
}

/// A local file whose columns are decoded nested as they are in it. Texts and bytes come one after the
/// other.
///
/// Raises `OSError` if it cannot be opened, and `ValueError` if it is no Parquet file or damaged.
#[pyclass(frozen, name = "NestedFile")]
struct PyNestedFile(NestedFile);

#[pymethods]
impl PyNestedFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| footer_guarded(|| NestedFile::open(&path)))
            .map(Self)
            .map_err(in_python)
    }

    /// Decode some leaf columns of some row groups, so many rows at a time.
    fn read(
        &self,
        py: Python<'_>,
        leaves: Vec<usize>,
        row_groups: Vec<usize>,
        batch_rows: usize,
    ) -> PyResult<Batches> {
        py.detach(|| footer_guarded(|| self.0.read(&leaves, row_groups, batch_rows)))
            .map(Batches::new)
            .map_err(in_python)
    }
}

/// A panic over a footer is an error of the file.
fn footer_guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(ParquetError::General("its footer makes no sense".into())))
}

fn in_python(error: ParquetError) -> PyErr {
    match error {
        ParquetError::External(inner) if inner.is::<std::io::Error>() => {
            PyOSError::new_err(inner.to_string())
        }
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Small files that have the columns of one of them, which is given; some of these columns are read.
///
/// Raises `ValueError` if that one cannot be read.
#[pyclass(frozen)]
struct Alike(Pattern);

#[pymethods]
impl Alike {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, leaves: Vec<usize>) -> PyResult<Self> {
        py.detach(|| guarded(|| Pattern::of(&path, leaves).map_err(ArrowError::from)))
            .map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Return the rows of files, and how many files: up to the first that is unlike the others,
    /// damaged, large or not there. `text_bytes` is as in `read`.
    #[pyo3(signature = (paths, *, text_bytes=None))]
    fn read(
        &self,
        py: Python<'_>,
        paths: Vec<PathBuf>,
        text_bytes: Option<usize>,
    ) -> PyResult<(Batches, usize)> {
        py.detach(|| guarded(|| self.0.read(&paths, text_bytes)))
            .map(|(rows, count)| (Batches::new(rows), count))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Rows that were sorted and written to a file, to be taken from it once.
#[pyclass(frozen)]
struct SortedRun(Mutex<runs::Run>);

#[pymethods]
impl SortedRun {
    /// Write rows to a file. `rows` speaks Arrow's C stream interface; `order` has places in them, as
    /// 32-bit integers. So many rows are a block: what is held when they are taken.
    ///
    /// Raises `OSError` if it cannot be written.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        rows: &Bound<'_, PyAny>,
        order: PyBuffer<i32>,
        block_rows: usize,
    ) -> PyResult<Self> {
        let (parts, order) = (batches_of(rows)?, order.to_vec(py)?);
        py.detach(|| {
            guarded(|| {
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                runs::Run::write(&path, &parts, &order, block_rows)
            })
        })
        .map(|run| Self(Mutex::new(run)))
        .map_err(of_runs)
    }
}

/// Take the next rows of runs. `counts` has how many of each; `order` has their places if those of
/// each run came one after the other.
///
/// Raises `OSError` if a file cannot be read.
#[pyfunction]
fn take_sorted(
    py: Python<'_>,
    runs: Vec<PyRef<'_, SortedRun>>,
    counts: Vec<usize>,
    order: PyBuffer<i32>,
) -> PyResult<Batches> {
    let order = order.to_vec(py)?;
    let runs: Vec<_> = runs.iter().map(|run| &run.0).collect();
    py.detach(|| {
        guarded(|| {
            let held = runs.iter().map(|run| run.try_lock());
            let mut held = held.collect::<Result<Vec<_>, _>>().map_err(|_| in_use())?;
            let mut runs: Vec<_> = held.iter_mut().map(|run| &mut **run).collect();
            runs::next_rows(&mut runs, &counts, &order)
        })
    })
    .map(|rows| {
        let schema = rows.schema();
        Batches::new(RecordBatchIterator::new([Ok(rows)], schema))
    })
    .map_err(of_runs)
}

fn batches_of(rows: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = rows.call_method0("__arrow_c_stream__")?;
    let stream = capsule
        .cast::<PyCapsule>()?
        .pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: the name says what it is; it is moved out, and the capsule left with nothing.
    unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr().cast()) }.map_err(of_runs)
}

fn in_use() -> ArrowError {
    ArrowError::InvalidArgumentError("a run is asked twice at a time".into())
}

fn of_runs(error: ArrowError) -> PyErr {
    match error {
        ArrowError::IoError(_, inner) => inner.into(),
        other => PyValueError::new_err(other.to_string()),
    }
}

#[pymodule]
fn lazydelta_decoder(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Panics become errors; nothing is written to the host's standard error. Only ours: every
    // library has a hook of its own.
    std::panic::set_hook(Box::new(|_| {}));
    module.add("INTERFACE", INTERFACE)?;
    module.add_class::<Batches>()?;
    module.add_class::<Alike>()?;
    module.add_class::<PyNestedFile>()?;
    module.add_class::<SortedRun>()?;
    module.add_function(wrap_pyfunction!(take_sorted, module)?)?;
    module.add_function(wrap_pyfunction!(read, module)?)
}
