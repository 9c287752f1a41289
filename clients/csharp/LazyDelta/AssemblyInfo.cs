using System.Runtime.CompilerServices;

[assembly: InternalsVisibleTo("LazyDelta.Flight")]
