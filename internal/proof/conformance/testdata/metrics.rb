# What the Metrics pages of Sidekiq 7 and 8 ask Redis, written by hand: they walk
# back from now, a minute (8's longer periods: ten minutes) at a time, over keys
# that hold UTC times.
class MetricsPage
  METRICS = %w[p f ms].freeze
  BUCKETS = 26

  # One version's names of keys.
  NAMES = {
    7 => {
      minute: ->(t) { "j|#{t.strftime("%Y%m%d")}|#{t.hour}:#{t.min}" },
      histogram: ->(klass, t) { "#{klass}-#{t.strftime("%d-%H")}:#{t.min}" },
    },
    8 => {
      minute: ->(t) { "j|#{t.strftime("%y%m%d")}|#{t.hour}:#{t.strftime("%M")}" },
      ten_minutes: ->(t) { "j|#{t.strftime("%y%m%d")}|#{t.hour}:#{t.min / 10}" },
      histogram: ->(klass, t) { "h|#{klass}-#{t.day}-#{t.hour}:#{t.min}" },
    },
  }.freeze

  def initialize(redis, version, now)
    @redis, @names, @now = redis, NAMES.fetch(version), Time.at(now).utc
  end

  # The first page: every class with its sums over the last hour.
  def classes = sums(back(60, 60).map(&@names[:minute]))

  # The same over some hours, in 8.
  def classes_of_hours(hours) = sums(back(hours * 6, 600).map(&@names.fetch(:ten_minutes)))

  # The page of one class: its sums, and how many runs fell into each bucket.
  def job(klass)
    minutes = back(60, 60)
    found = minutes.map { |t| @redis.hmget(@names[:minute].call(t), *METRICS.map { |m| "#{klass}|#{m}" }) }
    gets = (0...BUCKETS).flat_map { |i| ["GET", "u16", "##{i}"] }
    fields = minutes.map { |t| @redis.call("BITFIELD_RO", @names[:histogram].call(klass, t), *gets) }
    METRICS.each_with_index.to_h { |m, i| [m, found.sum { |values| values[i].to_i }] }
      .merge("histogram" => fields.transpose.map(&:sum))
  end

  private

  def back(count, seconds) = Array.new(count) { |i| @now - i * seconds }

  def sums(keys)
    keys.each_with_object({}) do |key, all|
      @redis.hgetall(key).each do |field, n|
        klass, metric = field.split("|")
        (all[klass] ||= Hash.new(0))[metric] += Integer(n)
      end
    end
  end
end
