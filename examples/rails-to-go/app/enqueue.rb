# What the app's controllers do all day: twelve orders, one of them with an
# article that the shop does not have (yet).
require_relative "boot"

12.times do |i|
  order = 1000 + i
  basket = [{"article" => "tea", "count" => i + 1}, {"article" => "cup", "count" => 2}]
  basket << {"article" => "spoon", "count" => 1} if i == 7
  PriceWorker.perform_async(order, basket, i.even? ? "TEN" : nil)
  WelcomeMailWorker.perform_async(order)
end
StockReportWorker.perform_async("2026-11-21")
