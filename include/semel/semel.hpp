// Everything a program needs.
#pragma once

#include <semel/child.hpp>
#include <semel/combine.hpp>
#include <semel/durable.hpp>
#include <semel/engine.hpp>
#include <semel/error.hpp>
#include <semel/hook.hpp>
#include <semel/http.hpp>
#include <semel/idempotency.hpp>
#include <semel/log.hpp>
#include <semel/operation.hpp>
#include <semel/options.hpp>
#include <semel/run.hpp>
#include <semel/serve.hpp>
#include <semel/shape.hpp>
#include <semel/sql.hpp>
#include <semel/step.hpp>
#include <semel/task.hpp>
#include <semel/testing.hpp>
#include <semel/value.hpp>
#include <semel/workflow.hpp>
