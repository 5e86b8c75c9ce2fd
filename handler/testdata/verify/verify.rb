require "openssl"

# Raises unless the request is troupe's, unchanged, and at most five minutes old.
def verify!(secret, signature, body)
  time = signature.to_s[/\bt=(\d+)/, 1]
  mac = signature.to_s[/\bv1=(\h+)/, 1]
  expected = OpenSSL::HMAC.hexdigest("SHA256", secret, "#{time}.#{body}")
  raise "bad signature" unless OpenSSL.secure_compare(expected, mac.to_s)
  raise "too old" if (Time.now.to_i - time.to_i).abs > 300
end
