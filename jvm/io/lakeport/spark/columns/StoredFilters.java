package io.lakeport.spark.columns;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BinaryOperator;
import java.util.function.Function;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.sources.StringContains;
import org.apache.spark.sql.sources.StringEndsWith;
import org.apache.spark.sql.sources.StringStartsWith;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Filters that skip row groups, on stored column names. Spark also filters rows, so any may be dropped. */
public final class StoredFilters {
    private final StoredNames names;

    public StoredFilters(StoredNames names) {
        this.names = names;
    }

    public Seq<Filter> of(Seq<Filter> filters) {
        List<Filter> kept = new ArrayList<>();
        for (Filter filter : CollectionConverters.asJava(filters)) {
            Filter stored = of(filter);
            if (stored != null) {
                kept.add(stored);
            }
        }
        return CollectionConverters.asScala(kept).toList();
    }

    /** Null if there is no equivalent. */
    private Filter of(Filter filter) {
        if (filter instanceof And and) {
            return both(and.left(), and.right(), And::new);
        }
        if (filter instanceof Or or) {
            return both(or.left(), or.right(), Or::new);
        }
        if (filter instanceof Not not) {
            Filter child = of(not.child());
            return child == null ? null : new Not(child);
        }
        return ofColumn(filter);
    }

    private Filter both(Filter left, Filter right, BinaryOperator<Filter> join) {
        Filter first = of(left);
        Filter second = of(right);
        return first == null || second == null ? null : join.apply(first, second);
    }

    private Filter ofColumn(Filter filter) {
        if (filter instanceof EqualTo is) {
            return named(is.attribute(), name -> new EqualTo(name, is.value()));
        }
        if (filter instanceof EqualNullSafe is) {
            return named(is.attribute(), name -> new EqualNullSafe(name, is.value()));
        }
        if (filter instanceof GreaterThan is) {
            return named(is.attribute(), name -> new GreaterThan(name, is.value()));
        }
        if (filter instanceof GreaterThanOrEqual is) {
            return named(is.attribute(), name -> new GreaterThanOrEqual(name, is.value()));
        }
        if (filter instanceof LessThan is) {
            return named(is.attribute(), name -> new LessThan(name, is.value()));
        }
        if (filter instanceof LessThanOrEqual is) {
            return named(is.attribute(), name -> new LessThanOrEqual(name, is.value()));
        }
        if (filter instanceof In in) {
            return named(in.attribute(), name -> new In(name, in.values()));
        }
        return ofNullsAndTexts(filter);
    }

    private Filter ofNullsAndTexts(Filter filter) {
        if (filter instanceof IsNull is) {
            return named(is.attribute(), IsNull::new);
        }
        if (filter instanceof IsNotNull is) {
            return named(is.attribute(), IsNotNull::new);
        }
        if (filter instanceof StringStartsWith text) {
            return named(text.attribute(), name -> new StringStartsWith(name, text.value()));
        }
        if (filter instanceof StringEndsWith text) {
            return named(text.attribute(), name -> new StringEndsWith(name, text.value()));
        }
        if (filter instanceof StringContains text) {
            return named(text.attribute(), name -> new StringContains(name, text.value()));
        }
        return null;
    }

    private Filter named(String attribute, Function<String, Filter> make) {
        String[] path = names.of(Expressions.column(attribute).fieldNames());
        return path == null ? null : make.apply(new FieldReference(CollectionConverters.asScala(List.of(path)).toList()).describe());
    }
}
