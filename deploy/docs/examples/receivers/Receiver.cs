using System;
using System.IO;
using System.Linq;
using System.Net;
using System.Security.Cryptography;
using System.Text;
using System.Threading.Tasks;

class Receiver
{
    static readonly byte[] Key = Convert.FromBase64String(Environment.GetEnvironmentVariable("WEBHOOK_SECRET").Replace("whsec_", ""));

    static bool Genuine(string id, string timestamp, string signatures, byte[] body)
    {
        if (!long.TryParse(timestamp, out var seconds) || Math.Abs(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - seconds) > 300)
            return false; // a recorded request is not sent again later
        var hash = new HMACSHA256(Key).ComputeHash(Encoding.UTF8.GetBytes($"{id}.{timestamp}.").Concat(body).ToArray());
        var want = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(hash));
        return (signatures ?? "").Split(' ') // several during a rotation
            .Any(one => CryptographicOperations.FixedTimeEquals(want, Encoding.UTF8.GetBytes(one)));
    }

    static void Store(string id, byte[] body)
    {
        Directory.CreateDirectory("inbox");
        if (File.Exists($"inbox/{id}")) return; // a message may arrive twice
        File.WriteAllBytes($"inbox/{id}.new", body);
        File.Move($"inbox/{id}.new", $"inbox/{id}");
    }

    static void Answer(HttpListenerContext call)
    {
        var headers = call.Request.Headers;
        var body = new MemoryStream();
        call.Request.InputStream.CopyTo(body); // the bytes as they came
        var good = Genuine(headers["webhook-id"], headers["webhook-timestamp"], headers["webhook-signature"], body.ToArray());
        if (good) Store(headers["webhook-id"], body.ToArray());
        call.Response.StatusCode = good ? 204 : 401; // respond now, process the file later
        call.Response.Close();
    }

    static void Main()
    {
        var server = new HttpListener { Prefixes = { "http://127.0.0.1:9000/" } };
        server.Start();
        while (true)
        {
            var call = server.GetContext();
            Task.Run(() => Answer(call));
        }
    }
}
