# Answers each line of JSON on stdin, [line, [times]], with one: null if Ruby's fugit refuses the
# cron line, else [next time, previous time, whether it is a tick itself] for each time, null for
# one that has none. Times are seconds.
require "fugit"
require "json"

$stdout.sync = true
puts JSON.generate(Fugit::VERSION)
$stdin.each_line do |question|
  line, times = JSON.parse(question)
  cron = begin
    Fugit.parse(line) # as sidekiq-cron does
  rescue StandardError
    nil
  end
  answer = cron.is_a?(Fugit::Cron) && times.map do |t|
    at = EtOrbi::EoTime.new(t, "UTC")
    [cron.next_time(at).to_i, cron.previous_time(at).to_i, cron.match?(EtOrbi::EoTime.new(t, "UTC"))]
  rescue StandardError
    nil
  end
  puts JSON.generate(answer || nil)
end
