// Stands in for a Kusto connector: reads files while the scan continues, applies deletion vectors,
// and stops as soon as it has its rows (`take N`). .NET has no Parquet reader of its own, so a helper
// process decodes the files; which rows of a file count is decided here.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Text.Json;
using System.Threading.Tasks;
using LazyDelta;

internal static class Program
{
    private static async Task<int> Main(string[] arguments)
    {
        using var document = JsonDocument.Parse(arguments[0]);
        var settings = document.RootElement;
        using var reader = Reader(settings.GetProperty("reader"));
        var take = settings.GetProperty("take").GetInt64();
        long rows = 0, files = 0;
        try
        {
            await foreach (var file in Files(settings))
            {
                files++;
                foreach (var row in LiveRows(file, Rows(reader, file.Path)))
                {
                    Console.WriteLine(row);
                    if (++rows == take) break;
                }
                if (rows == take) break;
            }
            Console.WriteLine($"done {rows} rows of {files} files");
        }
        catch (LazyDeltaException error)
        {
            // Kusto retries a query after a transient failure, and reports a permanent one.
            var kind = error.IsRetryable ? "transient" : "permanent";
            Console.WriteLine($"{kind} {error.Status} {error.ErrorType}");
        }
        reader.StandardInput.Close();
        reader.WaitForExit();
        return reader.ExitCode;
    }

    private static async IAsyncEnumerable<DeltaFile> Files(JsonElement settings)
    {
        var store = settings.GetProperty("store").EnumerateObject()
            .ToDictionary(item => item.Name, item => item.Value.GetString());
        using var scanner = new DeltaNativeScanner(store);
        var options = new ScanOptions { Capabilities = new[] { "deletionVectors" } };
        if (settings.TryGetProperty("predicate", out var predicate))
            options.PredicateJson = predicate.GetString();
        var table = settings.GetProperty("table").GetString();
        await foreach (var file in scanner.ScanFilesAsync(table, options)) yield return file;
    }

    /// <summary>The rows that the deletion vector of the file does not name.</summary>
    private static IEnumerable<string> LiveRows(DeltaFile file, IEnumerable<string> rows)
    {
        long number = -1;
        foreach (var row in rows)
        {
            number++;
            var isDeleted = file.DeletedRows?.Any(r => r.Start <= number && number < r.End) ?? false;
            if (!isDeleted) yield return row;
        }
    }

    private static Process Reader(JsonElement command)
    {
        var parts = command.EnumerateArray().Select(part => part.GetString()).ToList();
        var start = new ProcessStartInfo(parts[0])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
        };
        foreach (var part in parts.Skip(1)) start.ArgumentList.Add(part);
        return Process.Start(start)!;
    }

    /// <summary>The rows of a file, in its order, up to an empty line.</summary>
    private static List<string> Rows(Process reader, string uri)
    {
        reader.StandardInput.WriteLine(uri);
        reader.StandardInput.Flush();
        var rows = new List<string>();
        for (string? line; !string.IsNullOrEmpty(line = reader.StandardOutput.ReadLine());) rows.Add(line);
        return rows;
    }
}
