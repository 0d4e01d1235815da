require "openssl"
require "webrick"

KEY = ENV.fetch("WEBHOOK_SECRET").delete_prefix("whsec_").unpack1("m")

def genuine?(request, body)
  id, timestamp = request["webhook-id"].to_s, request["webhook-timestamp"].to_s
  return false unless timestamp.match?(/\A\d+\z/) && (Time.now.to_i - timestamp.to_i).abs <= 300 # a recorded request is not sent again later
  want = "v1," + [OpenSSL::HMAC.digest("SHA256", KEY, "#{id}.#{timestamp}.#{body}")].pack("m0")
  request["webhook-signature"].to_s.split.any? { |one| OpenSSL.secure_compare(want, one) } # several during a rotation
end

Dir.mkdir("inbox") unless Dir.exist?("inbox")
server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: 9000)
server.mount_proc("/hooks") do |request, response|
  body = request.body.to_s # the bytes as they came
  next response.status = 401 unless genuine?(request, body)
  file = "inbox/#{request["webhook-id"]}"
  unless File.exist?(file) # a message may arrive twice
    File.binwrite("#{file}.new", body)
    File.rename("#{file}.new", file)
  end
  response.status = 204 # respond now, process the file later
end
server.start
