//! Decode columns of local Parquet files to Arrow. Strings and binaries come as views into their
//! pages, or copied into contiguous buffers. Rows that are not selected are dropped from a column
//! as soon as it is decoded.
//!
//! Every flat column has its own reader, and the readers are distributed among threads that live
//! as long as one batch: no thread is left that a fork of the Python process could break. Nested
//! columns share one reader (`nested_columns`).
//!
//! Also validates footers (`footer_validation`). Knows nothing of tables.

mod allocator;
mod column_workers;
mod file_source;
mod file_template;
mod flat_columns;
mod footer_validation;
mod nested_columns;
mod page_headers;
mod row_selection;
mod strings;
mod thrift;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatchReader;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use allocator::CachingAllocator;
use file_source::FileSource;
use file_template::{OpenedFile, Template};
use flat_columns::{Columns, ReadRequest};
use nested_columns::NestedFile;

#[global_allocator]
static ALLOCATOR: CachingAllocator = CachingAllocator::new();

/// Version of the Python interface. lazydelta ignores a decoder of another version.
const INTERFACE: u32 = 8;
/// Most values of lists and maps per row, on average: a few bytes can encode any number of them.
const MOST_VALUES_PER_ROW: i64 = 64;

/// Open a file and its footer. The footer is validated first: parsing a very deep one aborts.
fn opened(path: &Path) -> Result<(FileSource, ParquetMetaData), ParquetError> {
    let file = FileSource::open(path)?;
    let footer = footer_validation::read(&file)?;
    if !footer_validation::is_valid(&footer) {
        return Err(ParquetError::General("its footer is not valid".into()));
    }
    let metadata = ParquetMetaDataReader::decode_metadata(&footer)?;
    Ok((file, metadata))
}

/// Validate the page headers of columns. `largest` bounds the decompressed size of a page whose
/// codec sets no bound.
fn check_columns(
    file: &FileSource,
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
            let values = page_headers::check(file, chunk, largest)?.values;
            let is_list = chunk.column_descr().max_rep_level() > 0;
            if is_list && values / MOST_VALUES_PER_ROW > group.num_rows() {
                return Err(ParquetError::General("its lists are long".into()));
            }
        }
    }
    Ok(())
}

/// Ignore the embedded Arrow schema: other tools copy it without keeping it true.
fn as_parquet() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

/// Return reader metadata by which strings and binaries are decoded as views.
fn with_views(metadata: Arc<ParquetMetaData>) -> Result<ArrowReaderMetadata, ParquetError> {
    let footer = ArrowReaderMetadata::try_new(metadata.clone(), as_parquet())?;
    let fields = footer.schema().fields().iter().map(strings::viewed_field);
    let options = as_parquet().with_schema(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
    ArrowReaderMetadata::try_new(metadata, options)
}

/// Turn a panic in the decoder into an error: no C caller could survive it.
fn guarded<T>(work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(ArrowError::ParquetError(
            message.unwrap_or("the decoder panicked").into(),
        ))
    })
}

/// Record batches, exported once through Arrow's C stream interface.
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
        let _ = requested_schema; // the interface allows to ignore it
        let columns = self.0.lock().ok().and_then(|mut columns| columns.take());
        let columns =
            columns.ok_or_else(|| PyValueError::new_err("these batches were consumed"))?;
        let stream = FFI_ArrowArrayStream::new(columns);
        PyCapsule::new(py, stream, Some(c"arrow_array_stream".into()))
    }
}

/// Decode flat columns of a local file.
///
/// `span` is the range of rows to decode, counted from the first of the row groups. `kept` is a
/// bitmap over that range, lowest bit first: rows that are not set are dropped. With
/// `max_string_bytes`, strings and binaries are contiguous instead of views, and a batch in which
/// those of a column take more bytes is an error.
///
/// Raises `OSError` if it cannot be opened, and `ValueError` if it is no Parquet file or damaged.
#[pyfunction]
#[pyo3(signature = (path, leaves, row_groups, batch_rows, *, span=None, kept=None, max_string_bytes=None))]
#[allow(clippy::too_many_arguments)] // Python passes keywords
fn read(
    py: Python<'_>,
    path: PathBuf,
    leaves: Vec<usize>,
    row_groups: Vec<usize>,
    batch_rows: usize,
    span: Option<(usize, usize)>,
    kept: Option<&[u8]>,
    max_string_bytes: Option<usize>,
) -> PyResult<Batches> {
    let wanted = ReadRequest {
        leaves,
        row_groups,
        batch_rows,
        span,
        kept: kept.map(<[u8]>::to_vec),
        max_string_bytes,
    };
    py.detach(|| footer_guarded(|| Columns::open(&path, wanted)))
        .map(Batches::new)
        .map_err(to_py_err)
}

/// A local file whose leaf columns are decoded into the nested types of the file. Strings and
/// binaries are contiguous.
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
            .map_err(to_py_err)
    }

    /// Decode leaf columns of row groups, in batches of `batch_rows`.
    fn read(
        &self,
        py: Python<'_>,
        leaves: Vec<usize>,
        row_groups: Vec<usize>,
        batch_rows: usize,
    ) -> PyResult<Batches> {
        py.detach(|| footer_guarded(|| self.0.read(&leaves, row_groups, batch_rows)))
            .map(Batches::new)
            .map_err(to_py_err)
    }
}

/// Turn a panic over a footer into an error.
fn footer_guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(ParquetError::General("its footer is invalid".into())))
}

fn to_py_err(error: ParquetError) -> PyErr {
    match error {
        ParquetError::External(inner) if inner.is::<std::io::Error>() => {
            PyOSError::new_err(inner.to_string())
        }
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Template for files with the schema of one given file, and the columns to read of them. `shown`
/// replaces the schema of opened files: the same types with other names, nullability and metadata.
///
/// Raises `ValueError` if the given file cannot be read.
#[pyclass(frozen)]
struct FileTemplate(Template);

#[pymethods]
impl FileTemplate {
    #[new]
    #[pyo3(signature = (path, leaves, *, shown=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        leaves: Vec<usize>,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let shown = shown.map(schema_of).transpose()?.map(Arc::new);
        py.detach(|| {
            guarded(|| Template::from_file(&path, leaves, shown).map_err(ArrowError::from))
        })
        .map(Self)
        .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The schema of the columns; strings and binaries are views.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new(py, schema, Some(c"arrow_schema".into()))
    }

    /// Open a file of any size. A column of a row group that decompresses to more than
    /// `max_inflated` bytes, and to much more than it takes in the file, is an error.
    ///
    /// Raises `OSError` or `ValueError` if it does not match, is damaged or missing.
    fn open(&self, py: Python<'_>, path: PathBuf, max_inflated: i64) -> PyResult<TemplateFile> {
        py.detach(|| footer_guarded(|| self.0.open(&path, max_inflated)))
            .map(TemplateFile)
            .map_err(to_py_err)
    }

    /// Return the rows of small files, and their number: up to the first that does not match, is
    /// damaged, large or missing. `max_string_bytes` is as in `read`.
    #[pyo3(signature = (paths, *, max_string_bytes=None))]
    fn read(
        &self,
        py: Python<'_>,
        paths: Vec<PathBuf>,
        max_string_bytes: Option<usize>,
    ) -> PyResult<(Batches, usize)> {
        py.detach(|| guarded(|| self.0.read(&paths, max_string_bytes)))
            .map(|(rows, count)| (Batches::new(rows), count))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// A file that matches a template.
#[pyclass(frozen)]
struct TemplateFile(OpenedFile);

#[pymethods]
impl TemplateFile {
    #[getter]
    fn num_rows(&self) -> i64 {
        self.0.rows()
    }

    /// Uncompressed bytes of its row groups, by its footer.
    #[getter]
    fn size(&self) -> i64 {
        self.0.size()
    }

    /// Decode its rows. `kept` and `max_string_bytes` are as in `read`.
    ///
    /// Raises `ValueError` if it is damaged.
    #[pyo3(signature = (batch_rows, *, kept=None, max_string_bytes=None))]
    fn read(
        &self,
        py: Python<'_>,
        batch_rows: usize,
        kept: Option<&[u8]>,
        max_string_bytes: Option<usize>,
    ) -> PyResult<Batches> {
        let kept = kept.map(<[u8]>::to_vec);
        py.detach(|| footer_guarded(|| self.0.read(batch_rows, kept, max_string_bytes)))
            .map(Batches::new)
            .map_err(to_py_err)
    }
}

fn schema_of(schema: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let capsule = schema.call_method0("__arrow_c_schema__")?;
    let schema = capsule
        .cast::<PyCapsule>()?
        .pointer_checked(Some(c"arrow_schema"))?;
    // SAFETY: the capsule's name tells its type, and the capsule outlives the reference.
    let schema: &FFI_ArrowSchema = unsafe { schema.cast().as_ref() };
    Schema::try_from(schema).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Whether a footer is valid for every reader: its column chunks match the schema.
#[pyfunction]
fn is_valid_footer(footer: &[u8]) -> bool {
    footer_validation::is_valid(footer)
}

#[pymodule]
fn lazydelta_decoder(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Panics become errors and are not printed to stderr. Other Rust libraries of the process
    // have their own hook.
    std::panic::set_hook(Box::new(|_| {}));
    module.add("INTERFACE", INTERFACE)?;
    module.add_class::<Batches>()?;
    module.add_class::<FileTemplate>()?;
    module.add_class::<TemplateFile>()?;
    module.add_class::<PyNestedFile>()?;
    module.add_function(wrap_pyfunction!(is_valid_footer, module)?)?;
    module.add_function(wrap_pyfunction!(read, module)?)
}
