//! Columns of local Parquet files, decoded to Arrow. Texts and bytes come as views, which are not
//! copied out of the pages that they are in, or one after the other in memory of their own. Rows
//! that are not wanted are left out of a column as soon as it is decoded.
//!
//! Every column has a reader of its own, and the readers are shared out among threads that live as
//! long as one batch: nothing stays behind that a fork of the Python process could break. Nested
//! columns have one reader together (`nested`).
//!
//! Beside that, rows that are sorted in more memory than there is (`runs`), and whether a footer makes
//! sense (`footers`). Knows nothing of tables.

mod alike;
mod choice;
mod columns;
mod compact;
mod crew;
mod footers;
mod headers;
mod nested;
mod recycle;
mod runs;
mod shared;
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use alike::{Like, Pattern};
use columns::{Columns, Wanted};
use nested::NestedFile;
use recycle::Recycling;
use shared::Shared;

#[global_allocator]
static MEMORY: Recycling = Recycling::new();

/// Of what Python calls here: a package of another number is not for this lazydelta.
const INTERFACE: u32 = 7;
/// Most values of lists and maps for a row, on average: a few bytes can stand for any number of them.
const MOST_IN_A_LIST: i64 = 64;

/// A file and its footer, which makes sense: one that is very deep would end the process.
fn opened(path: &Path) -> Result<(Shared, ParquetMetaData), ParquetError> {
    let file = Shared::open(path)?;
    let footer = footers::read(&file)?;
    if !footers::are_sound(&footer) {
        return Err(ParquetError::General("its footer is unusual".into()));
    }
    let metadata = ParquetMetaDataReader::decode_metadata(&footer)?;
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
            let values = headers::check(file, chunk, largest)?.values;
            let is_list = chunk.column_descr().max_rep_level() > 0;
            if is_list && values / MOST_IN_A_LIST > group.num_rows() {
                return Err(ParquetError::General("its lists are long".into()));
            }
        }
    }
    Ok(())
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

/// Files that have the columns of one of them, which is given; some of these columns are read.
/// `shown` is a schema for those of opened files, of the same types: names, whether they may be
/// null, and notes are its own.
///
/// Raises `ValueError` if that one cannot be read.
#[pyclass(frozen)]
struct Alike(Pattern);

#[pymethods]
impl Alike {
    #[new]
    #[pyo3(signature = (path, leaves, *, shown=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        leaves: Vec<usize>,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let shown = shown.map(schema_of).transpose()?.map(Arc::new);
        py.detach(|| guarded(|| Pattern::of(&path, leaves, shown).map_err(ArrowError::from)))
            .map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The columns, texts and bytes as views.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new(py, schema, Some(c"arrow_schema".into()))
    }

    /// Open one of them, of any size. `inflated` is how many bytes a column of a row group may
    /// decompress to, if it is small in the file.
    ///
    /// Raises `OSError` or `ValueError` if it is unlike the others, damaged or not there.
    fn open(&self, py: Python<'_>, path: PathBuf, inflated: i64) -> PyResult<AlikeFile> {
        py.detach(|| footer_guarded(|| self.0.open(&path, inflated)))
            .map(AlikeFile)
            .map_err(in_python)
    }

    /// Return the rows of small files, and how many files: up to the first that is unlike the others,
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

/// A file that is like others.
#[pyclass(frozen)]
struct AlikeFile(Like);

#[pymethods]
impl AlikeFile {
    #[getter]
    fn num_rows(&self) -> i64 {
        self.0.rows()
    }

    /// How many bytes its rows take, by its footer.
    #[getter]
    fn size(&self) -> i64 {
        self.0.size()
    }

    /// Decode its rows. `kept` and `text_bytes` are as in `read`.
    ///
    /// Raises `ValueError` if it is damaged.
    #[pyo3(signature = (batch_rows, *, kept=None, text_bytes=None))]
    fn read(
        &self,
        py: Python<'_>,
        batch_rows: usize,
        kept: Option<&[u8]>,
        text_bytes: Option<usize>,
    ) -> PyResult<Batches> {
        let kept = kept.map(<[u8]>::to_vec);
        py.detach(|| footer_guarded(|| self.0.read(batch_rows, kept, text_bytes)))
            .map(Batches::new)
            .map_err(in_python)
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

fn schema_of(schema: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let capsule = schema.call_method0("__arrow_c_schema__")?;
    let schema = capsule
        .cast::<PyCapsule>()?
        .pointer_checked(Some(c"arrow_schema"))?;
    // SAFETY: the name says what it is, and the capsule outlives this.
    let schema: &FFI_ArrowSchema = unsafe { schema.cast().as_ref() };
    Schema::try_from(schema).map_err(|error| PyValueError::new_err(error.to_string()))
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

/// Whether a footer makes sense to all of its readers: what it says of columns is of their types.
#[pyfunction]
fn is_sound(footer: &[u8]) -> bool {
    footers::are_sound(footer)
}

#[pymodule]
fn lazydelta_decoder(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Panics become errors; nothing is written to the host's standard error. Only ours: every
    // library has a hook of its own.
    std::panic::set_hook(Box::new(|_| {}));
    module.add("INTERFACE", INTERFACE)?;
    module.add_class::<Batches>()?;
    module.add_class::<Alike>()?;
    module.add_class::<AlikeFile>()?;
    module.add_class::<PyNestedFile>()?;
    module.add_class::<SortedRun>()?;
    module.add_function(wrap_pyfunction!(take_sorted, module)?)?;
    module.add_function(wrap_pyfunction!(is_sound, module)?)?;
    module.add_function(wrap_pyfunction!(read, module)?)
}
