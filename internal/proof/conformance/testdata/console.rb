# A Ruby process with Sidekiq's client, API, poller and Web UI. Each line on
# stdin is a request {"url", "script", "args"}; the script is evaluated on the
# database at url, and its value goes to stdout as one line of JSON.
require "json"
require "uri"
require "sidekiq/api"
require "sidekiq/scheduled"
require "sidekiq/web"
require "rack/mock"
require "rack/session/cookie"
require_relative "metrics"

answers = $stdout.dup
$stdout.reopen($stderr)
Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)
Sidekiq.logger.level = Logger::ERROR

SITE = Rack::Builder.new {
  use Rack::Session::Cookie, secret: "0123456789abcdef" * 4, same_site: true
  run Sidekiq::Web
}.to_app

# Where scripts run: a new one each, so that nothing is left of the last.
class Desk
  attr_reader :args

  def initialize(args) = @args = args

  def ask(script) = instance_eval(script)

  # One request of a browser. An exception is what a server would answer with 500.
  def visit(method, path, form, cookie)
    env = {"HTTP_COOKIE" => cookie.to_s, "SCRIPT_NAME" => ""}
    env[:input] = URI.encode_www_form(form) if form
    env["CONTENT_TYPE"] = "application/x-www-form-urlencoded" if form
    r = Rack::MockRequest.new(SITE).request(method, path, env)
    {status: r.status, body: r.body.dup.force_encoding("UTF-8").scrub, location: r["Location"], cookie: r["Set-Cookie"]}
  rescue => e
    {status: 500, body: "#{e.class}: #{e.message}\n#{e.backtrace.first(5).join("\n")}"}
  end

  def entry(e)
    {jid: e.jid, class: e.klass, display_class: e.display_class, queue: e.queue, item: e.item, score: e.score,
     at: e.at.to_f, backtrace: e.error_backtrace}
  end
end

while (line = $stdin.gets)
  ask = JSON.parse(line)
  answer =
    begin
      Sidekiq.redis = {url: ask["url"]}
      {value: Desk.new(ask["args"]).ask(ask["script"])}
    rescue Exception => e
      {error: "#{e.class}: #{e.message}\n#{e.backtrace.first(8).join("\n")}"}
    ensure
      Sidekiq.redis_pool.shutdown(&:close)
    end
  answers.puts(JSON.generate(answer, max_nesting: 0))
  answers.flush
end
