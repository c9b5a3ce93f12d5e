# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of nested loops that end early, or not at all, or run for no number: what passes over loops get wrong first.

Each takes an array to write (256 numbers), one to read (64), and two numbers. `PTR`, `INT` and `BIT` stand for types
and `%cN` for the constant N.
"""

from __future__ import annotations

import re

_BODIES = {
    "nested_breaks": """
    %start = make_token : token
    %r, %k, %end = loop iter_values(%s = %c1, %i = %c0, %t = %start) : INT, INT, token -> INT, INT, token {
      %stop = cmpi greater_than_or_equal %i, %n, signed : INT -> BIT
      if %stop {
        break %s, %i, %t : INT, INT, token
      }
      %a, %at = loop iter_values(%u = %s, %j = %c0) : INT, INT -> INT, INT {
        %scaled = muli %u, %c31 : INT
        %hash = addi %scaled, %j : INT
        %large = cmpi greater_than %j, %m, signed : INT -> BIT
        if %large {
          break %hash, %j : INT, INT
        }
        %low = andi %hash, %c1 : INT
        %odd = cmpi equal %low, %c1, signed : INT -> BIT
        if %odd {
          %far = addi %j, %c2 : INT
          continue %u, %far : INT, INT
        }
        %same = cmpi equal %j, %i, signed : INT -> BIT
        if %same {
          break %u, %j : INT, INT
        }
        %next = addi %j, %c1 : INT
        continue %hash, %next : INT, INT
      }
      %more = addi %i, %c1 : INT
      %skip = cmpi equal %at, %c2, signed : INT -> BIT
      if %skip {
        continue %a, %more, %t : INT, INT, token
      }
      %place = andi %i, %c15 : INT
      %q = offset %out, %place : PTR, INT -> PTR
      %stored = store_ptr_tko weak %q, %a token=%t : PTR, INT -> token
      continue %a, %more, %stored : INT, INT, token
    }
    %q40 = offset %out, %c40 : PTR, INT -> PTR
    %q41 = offset %out, %c41 : PTR, INT -> PTR
    store_ptr_tko weak %q40, %r token=%end : PTR, INT -> token
    store_ptr_tko weak %q41, %k token=%end : PTR, INT -> token
    """,
    "exchanged_values": """
    %x, %y, %z = for %i in (%c0 to %n, step %c1) : INT iter_values(%a = %c1, %b = %c2, %c = %c3) -> (INT, INT, INT) {
      %low = andi %i, %c3 : INT
      %first = cmpi equal %low, %c0, signed : INT -> BIT
      if %first {
        continue %b, %a, %c : INT, INT, INT
      }
      %second = cmpi equal %low, %c1, signed : INT -> BIT
      %d, %e = if %second -> (INT, INT) {
        continue %c, %c, %i : INT, INT, INT
      } else {
        %sum = addi %a, %c : INT
        yield %sum, %b : INT, INT
      }
      continue %e, %c, %d : INT, INT, INT
    }
    %u, %v = loop iter_values(%a = %x, %b = %y) : INT, INT -> INT, INT {
      %less = cmpi less_than %a, %b, signed : INT -> BIT
      if %less {
        %done = cmpi less_than %a, %c2, signed : INT -> BIT
        if %done {
          break %b, %a : INT, INT
        }
        %rest = subi %b, %a : INT
        continue %rest, %a : INT, INT
      }
      %same = cmpi equal %a, %b, signed : INT -> BIT
      if %same {
        break %a, %b : INT, INT
      } else {
        continue %b, %a : INT, INT
      }
      continue %b, %b : INT, INT
    }
    store_ptr_tko weak %out, %x : PTR, INT -> token
    %q1 = offset %out, %c1 : PTR, INT -> PTR
    %q2 = offset %out, %c2 : PTR, INT -> PTR
    %q3 = offset %out, %c3 : PTR, INT -> PTR
    %q5 = offset %out, %c5 : PTR, INT -> PTR
    store_ptr_tko weak %q1, %y : PTR, INT -> token
    store_ptr_tko weak %q2, %z : PTR, INT -> token
    store_ptr_tko weak %q3, %u : PTR, INT -> token
    store_ptr_tko weak %q5, %v : PTR, INT -> token
    """,
    "return_in_the_middle": """
    %start = make_token : token
    %sum, %end = loop iter_values(%s = %n, %t = %start) : INT, token -> INT, token {
      %q = loop iter_values(%k = %c0) : INT -> INT {
        %l = addi %k, %s : INT
        %far = cmpi greater_than %l, %c31, signed : INT -> BIT
        if %far {
          %first = store_ptr_tko weak %out, %l token=%t : PTR, INT -> token
          return
        }
        %near = cmpi greater_than_or_equal %k, %m, signed : INT -> BIT
        if %near {
          break %l : INT
        }
        %more = addi %k, %c3 : INT
        continue %more : INT
      }
      %negative = cmpi less_than %q, %c0, signed : INT -> BIT
      if %negative {
        break %q, %t : INT, token
      }
      %place = andi %q, %c15 : INT
      %p = offset %out, %place : PTR, INT -> PTR
      %read, %loaded = load_ptr_tko weak %p token=%t : PTR -> INT, token
      %both = addi %read, %q : INT
      %stored = store_ptr_tko weak %p, %both token=%loaded : PTR, INT -> token
      %next = addi %s, %c5 : INT
      continue %next, %stored : INT, token
    }
    %q40 = offset %out, %c40 : PTR, INT -> PTR
    store_ptr_tko weak %q40, %sum token=%end : PTR, INT -> token
    """,
    "ends_of_numbers": """
    %low8 = constant <i8: -128> : tile<i8>
    %near8 = constant <i8: 120> : tile<i8>
    %high8 = constant <i8: 127> : tile<i8>
    %step8 = constant <i8: 100> : tile<i8>
    %three8 = constant <i8: 3> : tile<i8>
    %a = for %i in (%low8 to %high8, step %step8) : tile<i8> iter_values(%s = %n) -> (INT) {
      %wide = exti %i signed : tile<i8> -> INT
      %scaled = muli %s, %c31 : INT
      %hash = addi %scaled, %wide : INT
      continue %hash : INT
    }
    %b = for %i in (%near8 to %high8, step %three8) : tile<i8> iter_values(%s = %a) -> (INT) {
      %wide = exti %i signed : tile<i8> -> INT
      %above = cmpi greater_than %i, %near8, signed : tile<i8> -> BIT
      %hash = if %above -> (INT) {
        %scaled = muli %s, %c31 : INT
        yield %scaled : INT
      } else {
        %scaled = addi %s, %wide : INT
        yield %scaled : INT
      }
      continue %hash : INT
    }
    %c = for unsigned %i in (%near8 to %low8, step %three8) : tile<i8> iter_values(%s = %b) -> (INT) {
      %wide = exti %i unsigned : tile<i8> -> INT
      %early = cmpi greater_than %i, %three8, unsigned : tile<i8> -> BIT
      if %early {
        %plus = addi %s, %wide : INT
        continue %plus : INT
      }
      continue %wide : INT
    }
    %d = for %i in (%near8 to %low8, step %three8) : tile<i8> iter_values(%s = %c) -> (INT) {
      continue %c0 : INT
    }
    %least = constant <i32: -2147483648> : INT
    %most = constant <i32: 2147483647> : INT
    %before = subi %most, %c5 : INT
    %e = for %i in (%before to %most, step %c3) : INT iter_values(%s = %d) -> (INT) {
      %past = cmpi less_than_or_equal %i, %before, signed : INT -> BIT
      %hash = if %past -> (INT) {
        %x = addi %s, %c3 : INT
        yield %x : INT
      } else {
        %x = muli %s, %c5 : INT
        yield %x : INT
      }
      continue %hash : INT
    }
    %behind = addi %least, %c5 : INT
    %f = for %i in (%least to %behind, step %c2) : INT iter_values(%s = %e) -> (INT) {
      %hash = subi %s, %i : INT
      continue %hash : INT
    }
    %g = for %i in (%most to %least, step %c1) : INT iter_values(%s = %f) -> (INT) {
      continue %i : INT
    }
    %h = for unsigned %i in (%most to %behind, step %c2) : INT iter_values(%s = %g) -> (INT) {
      %hash = xori %s, %i : INT
      continue %hash : INT
    }
    store_ptr_tko weak %out, %h : PTR, INT -> token
    %q1 = offset %out, %c1 : PTR, INT -> PTR
    store_ptr_tko weak %q1, %a : PTR, INT -> token
    """,
    "ranges_that_are_empty": """
    %a = for %i in (%n to %m, step %c3) : INT iter_values(%s = %c5) -> (INT) {
      %low = andi %i, %c1 : INT
      %odd = cmpi equal %low, %c1, signed : INT -> BIT
      if %odd {
        continue %s : INT
      }
      %b = for %j in (%i to %c2, step %c2) : INT iter_values(%u = %s) -> (INT) {
        %scaled = muli %u, %c31 : INT
        %hash = addi %scaled, %j : INT
        %below = cmpi less_than %j, %i, signed : INT -> BIT
        if %below {
          continue %i : INT
        }
        continue %hash : INT
      }
      continue %b : INT
    }
    for %i in (%n to %c5, step %c2) : INT {
      for %j in (%c0 to %m, step %c1) : INT {
        %row = andi %i, %c15 : INT
        %first = muli %row, %c16 : INT
        %column = andi %j, %c15 : INT
        %place = addi %first, %column : INT
        %q = offset %out, %place : PTR, INT -> PTR
        %stored = store_ptr_tko weak %q, %a : PTR, INT -> token
        continue
      }
      continue
    } {cuda_tile.loop_interchange = 1 : i32}
    """,
    "columns_in_rows": """
    for %i in (%c0 to %m, step %c1) : INT {
      %column = andi %i, %c7 : INT
      for %j in (%c0 to %c7, step %c2) : INT {
        %row = muli %j, %c7 : INT
        %some = addi %row, %column : INT
        %q = offset %in, %some : PTR, INT -> PTR
        %x, %t = load_ptr_tko weak %q : PTR -> INT, token
        for %k in (%n to %c2, step %c5) : INT {
          %y = addi %x, %k : INT
          %p = offset %out, %some : PTR, INT -> PTR
          %small = cmpi less_than %k, %c0, signed : INT -> BIT
          if %small {
            continue
          }
          %stored = store_ptr_tko weak %p, %x : PTR, INT -> token
          continue
        }
        continue
      } {cuda_tile.loop_interchange = 1 : i32}
      continue
    } {cuda_tile.loop_interchange = 1 : i32}
    """,
    "tokens_through_loops": """
    %start = make_token : token
    %t1 = for %i in (%c0 to %c7, step %c1) : INT iter_values(%t = %start) -> (token) {
      %p = offset %out, %i : PTR, INT -> PTR
      %next = addi %i, %c1 : INT
      %q = offset %out, %next : PTR, INT -> PTR
      %x, %a = load_ptr_tko weak %p token=%t : PTR -> INT, token
      %y = addi %x, %n : INT
      %b = store_ptr_tko weak %q, %y token=%a : PTR, INT -> token
      continue %b : token
    }
    %t2 = for %i in (%c0 to %c7, step %c1) : INT iter_values(%t = %t1) -> (token) {
      %place = subi %c15, %i : INT
      %p = offset %out, %place : PTR, INT -> PTR
      %q = offset %out, %i : PTR, INT -> PTR
      %x, %a = load_ptr_tko weak %q token=%t : PTR -> INT, token
      %b = store_ptr_tko weak %p, %x token=%t : PTR, INT -> token
      %j = join_tokens %a, %b : token
      continue %j : token
    }
    %t3, %t4 = loop iter_values(%t = %t2, %u = %t2, %i = %c0) : token, token, INT -> token, token {
      %p = offset %out, %i : PTR, INT -> PTR
      %x, %a = load_ptr_tko weak %p token=%t : PTR -> INT, token
      %stop = cmpi greater_than_or_equal %i, %m, signed : INT -> BIT
      if %stop {
        break %a, %u : token, token
      }
      %last = cmpi greater_than %i, %c15, signed : INT -> BIT
      if %last {
        break %u, %a : token, token
      }
      %y = addi %x, %c1 : INT
      %b = store_ptr_tko weak %p, %y token=%a : PTR, INT -> token
      %next = addi %i, %c1 : INT
      %low = andi %i, %c1 : INT
      %odd = cmpi equal %low, %c1, signed : INT -> BIT
      if %odd {
        %both = join_tokens %b, %u : token
        continue %both, %both, %next : token, token, INT
      }
      continue %b, %b, %next : token, token, INT
    }
    %t5 = join_tokens %t3, %t4 : token
    %t6 = for %i in (%c0 to %n, step %c1) : INT iter_values(%t = %t5) -> (token) {
      %x, %a = load_ptr_tko weak %out token=%t : PTR -> INT, token
      %y = addi %x, %i : INT
      %b = store_ptr_tko weak %out, %y token=%a : PTR, INT -> token
      continue %b : token
    }
    %x, %t7 = load_ptr_tko weak %out token=%t6 : PTR -> INT, token
    %p40 = offset %out, %c40 : PTR, INT -> PTR
    store_ptr_tko weak %p40, %x token=%t7 : PTR, INT -> token
    """,
    "divisions_behind_exits": """
    %r, %s = loop iter_values(%a = %n, %b = %m) : INT, INT -> INT, INT {
      %none = cmpi equal %b, %c0, signed : INT -> BIT
      if %none {
        break %a, %b : INT, INT
      }
      %q = divi %c41, %m signed : INT
      %rest = remi %a, %b signed : INT
      %quotient = if %none -> (INT) {
        %wrong = divi %a, %b signed : INT
        yield %wrong : INT
      } else {
        yield %q : INT
      }
      %minus = cmpi less_than %rest, %c0, signed : INT -> BIT
      if %minus {
        break %quotient, %q : INT, INT
      }
      continue %b, %rest : INT, INT
    }
    %sum = for %i in (%c0 to %m, step %c1) : INT iter_values(%u = %r) -> (INT) {
      %skip = cmpi equal %i, %s, signed : INT -> BIT
      if %skip {
        continue %u : INT
      }
      %d = divi %c41, %m signed : INT
      %e = remi %c31, %m unsigned : INT
      %f = addi %d, %e : INT
      %g = addi %f, %u : INT
      continue %g : INT
    }
    store_ptr_tko weak %out, %r : PTR, INT -> token
    %q1 = offset %out, %c1 : PTR, INT -> PTR
    store_ptr_tko weak %q1, %sum : PTR, INT -> token
    """,
    "loads_around_exits": """
    %start = make_token : token
    %x, %t0 = load_ptr_tko weak %out token=%start : PTR -> INT, token
    %sum, %end = loop iter_values(%i = %c0, %t = %t0) : INT, token -> INT, token {
      %y, %a = load_ptr_tko weak %out token=%t : PTR -> INT, token
      %stop = cmpi greater_than_or_equal %i, %n, signed : INT -> BIT
      if %stop {
        %again, %b = load_ptr_tko weak %out token=%t : PTR -> INT, token
        %both = addi %again, %i : INT
        break %both, %b : INT, token
      }
      %z = addi %y, %i : INT
      %next = addi %i, %c1 : INT
      %low = andi %i, %c3 : INT
      %write = cmpi equal %low, %c2, signed : INT -> BIT
      %c = if %write -> (token) {
        %d = store_ptr_tko weak %out, %z token=%a : PTR, INT -> token
        yield %d : token
      } else {
        %unused, %d = load_ptr_tko weak %out token=%a : PTR -> INT, token
        %both = join_tokens %a, %d : token
        yield %both : token
      }
      %w, %e = load_ptr_tko weak %out token=%c : PTR -> INT, token
      %place = addi %low, %c5 : INT
      %p = offset %out, %place : PTR, INT -> PTR
      %f = store_ptr_tko weak %p, %w token=%e : PTR, INT -> token
      %large = cmpi greater_than %w, %m, signed : INT -> BIT
      if %large {
        break %w, %f : INT, token
      }
      continue %next, %f : INT, token
    }
    %last, %t1 = load_ptr_tko weak %out token=%end : PTR -> INT, token
    %total = addi %last, %sum : INT
    %all = addi %total, %x : INT
    %p40 = offset %out, %c40 : PTR, INT -> PTR
    store_ptr_tko weak %p40, %all token=%t1 : PTR, INT -> token
    """,
    "constants_on_some_ways": """
    %r, %s = loop iter_values(%state = %c1, %k = %c0) : INT, INT -> INT, INT {
      %one = cmpi equal %state, %c1, signed : INT -> BIT
      %next = if %one -> (INT) {
        %over = cmpi greater_than %k, %n, signed : INT -> BIT
        if %over {
          break %state, %k : INT, INT
        }
        yield %c1 : INT
      } else {
        yield %k : INT
      }
      %inner = for %i in (%c5 to %c2, step %c1) : INT iter_values(%v = %next) -> (INT) {
        continue %c0 : INT
      }
      %once = loop iter_values(%v = %inner) : INT -> INT {
        %again = cmpi not_equal %v, %c1, signed : INT -> BIT
        if %again {
          continue %c1 : INT
        }
        break %v : INT
      }
      %l = addi %k, %once : INT
      %both = cmpi equal %l, %m, signed : INT -> BIT
      if %both {
        break %c7, %l : INT, INT
      } else {
        continue %inner, %l : INT, INT
      }
      continue %l, %l : INT, INT
    }
    %end = if %true -> (INT) {
      yield %r : INT
    } else {
      %never = divi %r, %c0 signed : INT
      yield %never : INT
    }
    store_ptr_tko weak %out, %end : PTR, INT -> token
    %q1 = offset %out, %c1 : PTR, INT -> PTR
    store_ptr_tko weak %q1, %s : PTR, INT -> token
    """,
    "tiles_that_move": """
    %count = iota : tile<8xi32>
    %base1 = reshape %in : PTR -> tile<1xptr<i32>>
    %base = broadcast %base1 : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %to1 = reshape %out : PTR -> tile<1xptr<i32>>
    %to = broadcast %to1 : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %zeros = constant <i32: 0> : tile<8xi32>
    %known = assume bounded<-8, 16>, %n : INT
    %size1 = reshape %known : INT -> tile<1xi32>
    %size = broadcast %size1 : tile<1xi32> -> tile<8xi32>
    %start = make_token : token
    %sum, %end = loop iter_values(%i = %c0, %s = %zeros, %t = %start) : INT, tile<8xi32>, token -> tile<8xi32>, token {
      %past = cmpi greater_than_or_equal %i, %c41, signed : INT -> BIT
      if %past {
        break %s, %t : tile<8xi32>, token
      }
      %i1 = reshape %i : INT -> tile<1xi32>
      %from = broadcast %i1 : tile<1xi32> -> tile<8xi32>
      %at = addi %from, %count overflow<no_signed_wrap> : tile<8xi32>
      %mask = cmpi less_than %at, %size, signed : tile<8xi32> -> tile<8xi1>
      %ps = offset %base, %at : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
      %x, %a = load_ptr_tko weak %ps, %mask, %zeros : tile<8xptr<i32>>, tile<8xi1>, tile<8xi32> -> tile<8xi32>, token
      %u = addi %s, %x : tile<8xi32>
      %stop = cmpi greater_than %i, %m, signed : INT -> BIT
      if %stop {
        break %u, %t : tile<8xi32>, token
      }
      %qs = offset %to, %at : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
      %old, %b = load_ptr_tko weak %qs token=%t : tile<8xptr<i32>> -> tile<8xi32>, token
      %new = addi %old, %u : tile<8xi32>
      %c = store_ptr_tko weak %qs, %new, %mask token=%b : tile<8xptr<i32>>, tile<8xi32>, tile<8xi1> -> token
      %next = addi %i, %c5 : INT
      continue %next, %u, %c : INT, tile<8xi32>, token
    }
    %far = constant <i32: 50> : tile<8xi32>
    %places = addi %far, %count : tile<8xi32>
    %last = offset %to, %places : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    store_ptr_tko weak %last, %sum token=%end : tile<8xptr<i32>>, tile<8xi32> -> token
    """,
}

_TYPES = {"PTR": "tile<ptr<i32>>", "INT": "tile<i32>", "BIT": "tile<i1>"}


def _text(body: str) -> str:
    used = sorted({int(number) for number in re.findall(r"%c(\d+)\b", body)})
    constants = [f"    %c{number} = constant <i32: {number}> : INT" for number in used]
    constants += ["    %true = constant <i1: true> : BIT"] if "%true" in body else []
    head = "cuda_tile.module @m {\n  entry @kernel(%out: PTR, %in: PTR, %n: INT, %m: INT) {"
    text = "\n".join([head, *constants, body.strip("\n").rstrip(), "    return", "  }", "}", ""])
    return re.sub("|".join(_TYPES), lambda found: _TYPES[found.group()], text)


PROGRAMS = {name: _text(body) for name, body in _BODIES.items()}
"""The texts, by name."""
