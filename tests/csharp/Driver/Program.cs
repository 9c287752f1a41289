// Reads files as a C# service would, and prints what happens; tests/csharp calls it.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using LazyDelta;

internal static class Program
{
    /// <summary>Runs the scans of the argument, or of each line of the standard input.</summary>
    private static async Task<int> Main(string[] arguments)
    {
        if (arguments.Length > 0) await ScanEach(arguments[0]);
        else
            for (string? line; (line = Console.ReadLine()) != null;) await ScanEach(line);
        return 0;
    }

    private static async Task ScanEach(string line)
    {
        using var document = JsonDocument.Parse(line);
        foreach (var settings in document.RootElement.EnumerateArray()) await Scan(settings);
    }

    private static async Task Scan(JsonElement settings)
    {
        using var scanner = Scanner(settings);
        using var cancellation = new CancellationTokenSource();
        var options = Options(settings);
        var stopAfter = Number(settings, "stop_after") ?? -1;
        var cancelAfter = Number(settings, "cancel_after") ?? -1;
        long count = 0, bytes = 0;
        var clock = Stopwatch.StartNew();
        var isQuiet = settings.TryGetProperty("quiet", out _);
        try
        {
            var table = settings.GetProperty("table").GetString();
            if (settings.TryGetProperty("schema", out _))
            {
                Console.WriteLine("schema " + await Schema(scanner, table));
                return;
            }
            await foreach (var file in scanner.ScanFilesAsync(table, options, cancellation.Token))
            {
                count++;
                bytes += file.Size;
                if (!isQuiet) Console.WriteLine(JsonSerializer.Serialize(Printed(file)));
                if (count == stopAfter) break;
                if (count == cancelAfter) cancellation.Cancel();
            }
            Console.WriteLine(isQuiet ? $"{clock.Elapsed.TotalSeconds:F6} {count}" : $"done {count} {bytes}");
        }
        catch (OperationCanceledException)
        {
            Console.WriteLine("cancelled");
        }
        catch (LazyDeltaException error)
        {
            var message = error.Message.Replace("\n", " ");
            Console.WriteLine($"failed {error.Status} {error.ErrorType} {error.IsRetryable} {message}");
        }
    }

    private static Task<string> Schema(ILazyDeltaScanner scanner, string table) => scanner switch
    {
        DeltaHttpScanner remote => remote.ReadSchemaAsync(table),
        DeltaNativeScanner local => local.ReadSchemaAsync(table),
        _ => throw new NotSupportedException(),
    };

    private static ILazyDeltaScanner Scanner(JsonElement settings)
    {
        if (settings.TryGetProperty("server", out var server))
        {
            var token = settings.TryGetProperty("token", out var given) ? given.GetString() : null;
            return new DeltaHttpScanner(server.GetString(), token);
        }
        var store = settings.TryGetProperty("store", out var found)
            ? found.EnumerateObject().ToDictionary(item => item.Name, item => item.Value.GetString())
            : null;
        return new DeltaNativeScanner(store);
    }

    private static ScanOptions Options(JsonElement settings)
    {
        var options = new ScanOptions();
        if (settings.TryGetProperty("predicate", out var predicate))
            options.PredicateJson = predicate.GetString();
        if (settings.TryGetProperty("resume", out var resume)) options.Resume = resume.GetString();
        if (settings.TryGetProperty("strategy", out var strategy))
            options.Strategy = Enum.Parse<ScanStrategy>(strategy.GetString());
        if (settings.TryGetProperty("capabilities", out var names))
            options.Capabilities = names.EnumerateArray().Select(name => name.GetString()).ToList();
        options.Limit = Number(settings, "limit");
        options.Version = Number(settings, "version");
        return options;
    }

    private static int? Number(JsonElement settings, string name) =>
        settings.TryGetProperty(name, out var value) ? value.GetInt32() : (int?)null;

    private static Dictionary<string, object?> Printed(DeltaFile file) => new Dictionary<string, object?>
    {
        ["path"] = file.Path,
        ["size"] = file.Size,
        ["partition"] = file.PartitionValues,
        ["time"] = file.ModificationTime?.ToString("yyyy-MM-ddTHH:mm:ss.fffZ"),
        ["live_rows"] = file.LiveRows,
        ["version"] = file.Version,
        ["resume"] = file.ResumeToken,
        ["deleted"] = file.DeletedRows?.Select(range => new[] { range.Start, range.End }),
    };
}
